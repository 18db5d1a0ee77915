# SPDX-License-Identifier: Apache-2.0
"""The C++ extension, imported in one place, so that its absence gives one clear error."""

from __future__ import annotations

try:
    import _vla_edge_native as native
except ImportError as error:
    raise ImportError(
        "the C++ extension _vla_edge_native cannot be imported "
        f"({error}); build it with 'make native', or with 'colcon build' and a sourced install folder"
    ) from error

__all__ = ["native"]
