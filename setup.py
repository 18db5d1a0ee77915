# SPDX-License-Identifier: Apache-2.0
"""Build description for colcon (ament_python) and pip: the Python package and the C++ extension.

All paths start from this file's real place, because ``colcon build --symlink-install`` runs a link to it from
the build folder, where ``csrc/`` is not. The extension is a top-level module: inside the package, ``colcon
test`` would import the source tree, which does not hold it.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree

from setuptools import Extension, find_packages, setup
from setuptools.command.build_ext import build_ext

PACKAGE = "vla_edge_ros"
ROOT = Path(__file__).resolve().parent
NATIVE = ROOT / "csrc" / "native"


class BuildNative(build_ext):
    """Compile with pybind11's headers: those of the pip package, else those of the system (pybind11-dev)."""

    def build_extensions(self):
        try:
            import pybind11

            headers = [pybind11.get_include()]
        except ImportError:
            headers = []
        if not headers and not Path("/usr/include/pybind11").is_dir():
            sys.exit("pybind11 is missing: 'pip install pybind11' or 'apt install pybind11-dev'")
        for extension in self.extensions:
            extension.include_dirs += headers
        super().build_extensions()


def share(*patterns):
    """Pairs of (folder below share/, files) for ``data_files``, one pair a source folder."""
    folders = {}
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            folder = path.relative_to(ROOT).parent
            folders.setdefault(str(Path("share", PACKAGE, folder)), []).append(str(path.relative_to(ROOT)))
    return list(folders.items())


setup(
    name=PACKAGE,
    version=ElementTree.parse(ROOT / "package.xml").findtext("version"),
    description="A vision-language-action model on a live camera under a control deadline",
    license="Apache-2.0",
    maintainer="vla_edge_ros maintainers",
    maintainer_email="maintainers@users.noreply.a-seed-31445fe2.example",
    packages=find_packages(str(ROOT), include=[PACKAGE, f"{PACKAGE}.*"]),
    package_data={PACKAGE: ["models/*/*", "planner/*.json"]},
    ext_modules=[
        Extension(
            "_vla_edge_native",
            sources=[str(NATIVE / "bindings.cpp")],
            depends=[str(header) for header in sorted(NATIVE.glob("*.hpp"))],
            include_dirs=[str(NATIVE)],
            extra_compile_args=["-std=c++17", "-O2", "-Wall", "-Wextra", "-fvisibility=hidden"],
            extra_link_args=["-pthread"],
            language="c++",
        )
    ],
    cmdclass={"build_ext": BuildNative},
    data_files=[
        ("share/ament_index/resource_index/packages", [f"resource/{PACKAGE}"]),
        *share("package.xml", "launch/*.launch.py", "config/*", "csrc/kernels/*.cu*"),
    ],
    python_requires=">=3.10",
    install_requires=["numpy>=1.21"],
    # Without the key "test" colcon finds no pytest dependency and runs nothing, silently.
    extras_require={"test": ["pytest", "pytest-timeout", "hypothesis"]},
    zip_safe=False,
    entry_points={
        "console_scripts": [
            f"replay_node = {PACKAGE}.executables:replay_node",
            f"reasoning_node = {PACKAGE}.executables:reasoning_node",
            f"tabletop = {PACKAGE}.executables:tabletop_node",
            f"demo = {PACKAGE}.executables:demo",
            f"monitor = {PACKAGE}.executables:monitor",
            f"engine_check = {PACKAGE}.engines.check:main",
            f"plan = {PACKAGE}.planner.__main__:main",
            f"run_benchmarks = {PACKAGE}.bench.run.main:main",
        ]
    },
)
