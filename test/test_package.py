# SPDX-License-Identifier: Apache-2.0
"""setup.py, package.xml and the requirement files agree with each other and with the code."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import setuptools

import vla_edge_ros

ROOT = Path(__file__).resolve().parent.parent
SOURCES = sorted((ROOT / "vla_edge_ros").rglob("*.py"))
MANIFEST = ElementTree.parse(ROOT / "package.xml").getroot()

# Import name -> what provides it, where the names differ.
PROVIDERS = {
    "PIL": "pillow",
    "yaml": "pyyaml",
    "cv2": "opencv-python-headless",
    "cupy": "cupy-cuda12x",
    "cupy_backends": "cupy-cuda12x",
}

# What some benchmarks compare with; whoever runs those has them.
PEERS = {"torch", "transformers"}


@pytest.fixture
def setup_arguments(monkeypatch) -> dict:
    captured = {}
    monkeypatch.setattr(setuptools, "setup", lambda **arguments: captured.update(arguments))
    runpy.run_path(str(ROOT / "setup.py"))
    return captured


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"vla_edge_ros", "_vla_edge_native"}


def required(*files: str) -> set[str]:
    lines = [line for file in files for line in (ROOT / file).read_text().splitlines()]
    return {re.split(r"[<>=!~\[ ]", line)[0].lower() for line in lines if line and line[0] not in "#-"}


def test_version_is_one():
    assert MANIFEST.findtext("version") == vla_edge_ros.__version__


def test_version_reaches_setup(setup_arguments):
    assert setup_arguments["version"] == vla_edge_ros.__version__


def test_colcon_finds_pytest_in_the_test_extra(setup_arguments):
    assert "pytest" in setup_arguments["extras_require"]["test"]


def test_every_executable_exists(setup_arguments):
    for entry in setup_arguments["entry_points"]["console_scripts"]:
        module, _, function = entry.partition(" = ")[2].partition(":")
        path = ROOT / (module.replace(".", "/") + ".py")
        body = ast.parse(path.read_text()).body
        assert function in {node.name for node in body if isinstance(node, ast.FunctionDef)}, entry


def test_every_launch_config_and_kernel_file_is_installed(setup_arguments):
    installed = {source for _, sources in setup_arguments["data_files"] for source in sources}
    for pattern in ("launch/*.launch.py", "config/*", "csrc/kernels/*"):
        files = {str(path.relative_to(ROOT)) for path in ROOT.glob(pattern) if path.is_file()}
        assert files <= installed
    folders = {source: folder for folder, sources in setup_arguments["data_files"] for source in sources}
    assert folders["package.xml"] == "share/vla_edge_ros"
    for source, folder in folders.items():
        if source.startswith("csrc/"):
            assert folder == "share/vla_edge_ros/csrc/kernels"


def test_every_package_folder_is_installed(setup_arguments):
    folders = {str(path.parent.relative_to(ROOT)).replace("/", ".") for path in SOURCES}
    assert set(setup_arguments["packages"]) == folders


def test_every_file_of_a_shipped_model_is_installed(setup_arguments):
    files = {path for path in (ROOT / "vla_edge_ros/models").rglob("*") if path.is_file()}
    patterns = setup_arguments["package_data"]["vla_edge_ros"]
    installed = {path for pattern in patterns for path in (ROOT / "vla_edge_ros").glob(pattern)}
    assert any(path.suffix == ".safetensors" for path in files) and files <= installed


def test_the_planner_s_data_are_installed(setup_arguments):
    files = set((ROOT / "vla_edge_ros/planner").glob("*.json"))
    patterns = setup_arguments["package_data"]["vla_edge_ros"]
    installed = {path for pattern in patterns for path in (ROOT / "vla_edge_ros").glob(pattern)}
    assert len(files) == 2 and files <= installed


def is_from_ros(name: str) -> bool:
    return name in {"rclpy", "ament_index_python"} or name.endswith(("_msgs", "_interfaces"))


def test_every_ros_package_used_is_declared():
    declared = {element.text for element in MANIFEST if element.tag.endswith("depend")}
    assert {name for path in SOURCES for name in imported(path) if is_from_ros(name)} <= declared


def test_every_library_used_is_in_a_requirements_file():
    known = required("requirements.txt", "requirements-cuda.txt", "requirements-dev.txt")
    used = {name for path in SOURCES for name in imported(path) if not is_from_ros(name)} - PEERS
    assert {PROVIDERS.get(name, name) for name in used} <= known


def test_peers_are_imported_by_benchmarks_only():
    folders = {path.parent for path in SOURCES if imported(path) & PEERS}
    assert folders <= {ROOT / "vla_edge_ros/bench/kernels", ROOT / "vla_edge_ros/training"}


def test_every_requirement_has_a_lower_and_an_upper_bound():
    names = ("requirements.txt", "requirements-ros.txt", "requirements-cuda.txt", "requirements-dev.txt")
    for file in (*names, "requirements-training.txt"):
        for line in (ROOT / file).read_text().splitlines():
            if line and line[0] not in "#-":
                requirement, _, marker = line.partition("; ")
                assert re.fullmatch(r"[\w-]+>=[\d.]+,<[\d.]+", requirement), f"{file}: {line}"
                assert marker == "" or marker.startswith("python_version"), f"{file}: {line}"


def test_a_ros_distribution_gets_every_library_and_no_second_ros():
    plain, beside_ros = required("requirements.txt"), required("requirements-ros.txt")
    from_apt = {"pyyaml", "setuptools"}
    assert beside_ros == {name for name in plain if not name.startswith("ros-")} - from_apt


def test_make_venv_names_the_python_it_cannot_use(tmp_path):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 3.8\n")
    old.chmod(0o755)
    ran = subprocess.run(
        ["bash", str(ROOT / ".ci" / "make_venv"), str(old), str(tmp_path / "venv")],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 1
    assert "expected Python 3.10 to 3.13, got 3.8; choose one with PYTHON=" in ran.stderr
