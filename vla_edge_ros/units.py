# SPDX-License-Identifier: Apache-2.0
"""How many nanoseconds; without NumPy, since launch files read configurations under a Python without it."""

NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000
