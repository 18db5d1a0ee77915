# SPDX-License-Identifier: Apache-2.0
"""The borders of docs/explanation/architecture.md, checked on the source tree."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "vla_edge_ros"
MODULES = sorted(PACKAGE.rglob("*.py"))
ROS = {
    "rclpy",
    "sensor_msgs",
    "std_msgs",
    "trajectory_msgs",
    "diagnostic_msgs",
    "lifecycle_msgs",
    "cv_bridge",
}
LONGEST_FILE = 300


def imported(path: Path) -> set[str]:
    """Top-level names of everything that ``path`` imports, anywhere in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def imports_among(modules: dict[str, Path]) -> dict[str, set[str]]:
    """Which of ``modules`` each imports, anywhere in the file: below TYPE_CHECKING and in functions too."""
    found: dict[str, set[str]] = {}
    for module, path in modules.items():
        names = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                assert node.module and not node.level, f"{path}: expected no relative import"
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        found[module] = names & modules.keys() - {module}
    return found


def inside(path: Path, *folders: str) -> bool:
    return any(path.is_relative_to(PACKAGE / folder) for folder in folders)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_ros_and_bench_import_ros(path):
    """Benchmarks that measure the graph need it; nothing imports them."""
    if not inside(path, "ros", "bench"):
        assert not imported(path) & ROS


def test_only_the_cuda_engine_and_its_benchmarks_import_cupy():
    users = {path for path in MODULES if "cupy" in imported(path)}
    strangers = [path for path in users if not inside(path, "engines/cuda", "bench")]
    # load.py asks whether a device answers.
    assert [path.name for path in strangers] in ([], ["load.py"])


def test_only_the_tabletop_s_physics_imports_mujoco():
    users = [str(path.relative_to(PACKAGE)) for path in MODULES if "mujoco" in imported(path)]
    assert users == ["tabletop/physics.py"]


def test_no_modules_import_each_other_in_a_circle():
    dotted = (".".join(path.relative_to(ROOT).with_suffix("").parts) for path in MODULES)
    modules = dict(zip((name.removesuffix(".__init__") for name in dotted), MODULES, strict=True))
    imports = imports_among(modules)
    assert "vla_edge_ros.engines.cuda.plan.sizes" in imports["vla_edge_ros.engines.cuda.plan.persistent"]
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        raise AssertionError(f"imported in a circle: {' <- '.join(error.args[1])}") from None


def test_launch_is_imported_by_launch_files_only():
    assert [path for path in MODULES if imported(path) & {"launch", "launch_ros"}] == []


def test_core_imports_in_a_fresh_interpreter_without_ros_or_cupy():
    core = [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in MODULES
        if not inside(path, "ros", "bench", "training", "engines/cuda")
    ]
    program = (
        "import importlib, sys\n"
        f"for name in {core!r}: importlib.import_module(name)\n"
        f"loaded = {sorted(ROS | {'cupy', 'torch', 'mujoco'})!r}\n"
        "print([name for name in loaded if name in sys.modules])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip().endswith("[]")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_module_has_a_docstring_and_a_licence(path):
    text = path.read_text()
    assert text.startswith("# SPDX-License-Identifier: Apache-2.0\n")
    assert ast.get_docstring(ast.parse(text)), "what the module owns"


@pytest.mark.parametrize("folder", ["vla_edge_ros", "test", "csrc", "launch"])
def test_no_file_is_longer_than_one_idea(folder):
    sources = (
        path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".cu", ".cuh", ".hpp", ".cpp")
    )
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in sources}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE} == {}


def test_every_module_is_tested_by_name_or_through_its_user():
    """A test of its own name, an import in a test, or an import in a module that has one of these."""
    tests = [path for path in (ROOT / "test").rglob("*.py") if path != Path(__file__).resolve()]
    in_tests = "\n".join(path.read_text() for path in tests)

    def named_in(text: str, name: Path) -> bool:
        package, module = ".".join(("vla_edge_ros", *name.parts[:-1])), name.name
        return f"{package}.{module}" in text or bool(
            re.search(rf"from {package} import [^\n]*\b{module}\b", text)
        )

    modules = {path.relative_to(PACKAGE).with_suffix(""): path for path in MODULES if path.stem != "__init__"}
    direct = {
        name
        for name in modules
        if (ROOT / "test" / name.parent / f"test_{name.name}.py").exists() or named_in(in_tests, name)
    }
    users = "\n".join(modules[name].read_text() for name in direct)
    assert [str(name) for name in modules if name not in direct and not named_in(users, name)] == []
