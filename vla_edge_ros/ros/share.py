# SPDX-License-Identifier: Apache-2.0
"""Where the files that come with the package are: in the source tree, or installed by colcon."""

from __future__ import annotations

from pathlib import Path

from vla_edge_ros.errors import ConfigError

PACKAGE = "vla_edge_ros"


def share_file(relative: str) -> Path:
    """``config/tiny.yaml`` and the like. The source tree wins, so that an edit there has an effect."""
    in_source = Path(__file__).resolve().parents[2] / relative
    if in_source.is_file():
        return in_source
    from ament_index_python.packages import PackageNotFoundError, get_package_share_directory

    try:
        installed = Path(get_package_share_directory(PACKAGE), relative)
    except (PackageNotFoundError, OSError) as error:  # OSError: no ROS environment at all
        raise ConfigError(f"{relative} must be in the share folder of {PACKAGE}, got {error}") from error
    if not installed.is_file():
        raise ConfigError(f"{relative} must be in the share folder of {PACKAGE}, got no file {installed}")
    return installed
