# SPDX-License-Identifier: Apache-2.0
"""Engines: one protocol (``base``), the readable NumPy specification, and the fast CUDA one."""
