# SPDX-License-Identifier: Apache-2.0
"""What start-up puts on the device: kernels compiled and loaded, memory taken, weights packed."""
