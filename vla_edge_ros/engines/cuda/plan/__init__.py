# SPDX-License-Identifier: Apache-2.0
"""Sizes planned: grids, shared memory, layouts and buffers, from arithmetic alone. Asks no device."""
