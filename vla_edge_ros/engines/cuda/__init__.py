# SPDX-License-Identifier: Apache-2.0
"""The fast engine: hand-written kernels behind the Engine protocol. The only package that imports CuPy."""
