# SPDX-License-Identifier: Apache-2.0
"""Where the files that come with the package are: in the source tree, or installed by colcon."""

from __future__ import annotations

from pathlib import Path

from vla_edge_ros.errors import ConfigError

PACKAGE = "vla_edge_ros"
TABLETOP_MODEL = "tabletop-1024"  # the policy of the simulated robot


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


def trained_model(name: str) -> Path:
    """Folder of the trained weights ``name`` that come with the package. ``ConfigError`` without them."""
    folder = Path(__file__).resolve().parents[1] / "models" / name
    for file in ("config.json", "model.safetensors"):
        if not (folder / file).is_file():
            raise ConfigError(f"the trained weights {name} must be in {folder}, got no {file} there")
    return folder
