# SPDX-License-Identifier: Apache-2.0
"""For the native core: a model explorer, and a C++ compiler that knows ThreadSanitizer."""

from __future__ import annotations

import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A memcpy that GCC expands in place is not watched; the library's is.
SANITIZE = ("-fsanitize=thread", "-g", "-fno-builtin")


class Violated(Exception):
    """A model's rule does not hold in some state."""


@dataclass
class Exploration:
    """``states``: how many; ``labels``: steps taken; ``trace``: the shortest way to break ``rule``."""

    states: int = 0
    labels: set[str] = field(default_factory=set)
    rule: str = ""
    trace: list[str] = field(default_factory=list)


Steps = Callable[[Hashable], Iterable[tuple[str, Hashable]]]


def explore_all(initial: Hashable, steps: Steps) -> Exploration:
    """Visit every state that any interleaving reaches, breadth first, until ``steps`` raises ``Violated``."""
    came_from: dict[Hashable, tuple[Hashable, str] | None] = {initial: None}
    todo = deque([initial])
    result = Exploration()
    while todo:
        state = todo.popleft()
        try:
            for label, following in steps(state):
                result.labels.add(label)
                if following not in came_from:
                    came_from[following] = (state, label)
                    todo.append(following)
        except Violated as violated:
            result.rule = str(violated)
            while (origin := came_from[state]) is not None:
                state, label = origin
                result.trace.insert(0, label)
            break
    result.states = len(came_from)
    return result


@pytest.fixture
def explore() -> Callable[[Hashable, Steps], Exploration]:
    return explore_all


@pytest.fixture
def violated() -> type[Violated]:
    return Violated


@pytest.fixture
def run_native(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Compile ``test/native/<name>.cpp`` against the core, without Python, and run it."""
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")

    def compile_and_run(source: Path, *flags: str) -> subprocess.CompletedProcess[str]:
        program = tmp_path / source.stem
        include = f"-I{ROOT / 'csrc' / 'native'}"
        command = [compiler, "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", include, *flags, str(source)]
        built = subprocess.run(
            [*command, "-pthread", "-o", str(program)], capture_output=True, text=True, timeout=300
        )
        assert built.returncode == 0, built.stderr
        return subprocess.run([str(program)], capture_output=True, text=True, timeout=300)

    def run(name: str, sanitize: bool = False) -> subprocess.CompletedProcess[str]:
        if sanitize:
            clean = tmp_path / "clean.cpp"
            clean.write_text("int main() { return 0; }\n")
            try:
                usable = compile_and_run(clean, *SANITIZE).returncode == 0
            except AssertionError as error:
                pytest.skip(f"the compiler has no ThreadSanitizer: {str(error).splitlines()[0]}")
            if not usable:
                pytest.skip("ThreadSanitizer programs do not run on this kernel")
        return compile_and_run(ROOT / "test" / "native" / f"{name}.cpp", *(SANITIZE if sanitize else ()))

    return run
