# SPDX-License-Identifier: Apache-2.0
"""Which engine ``engine.name: auto`` takes on this machine, and why: ``ros2 run vla_edge_ros engine_check``.

The launch files ask it too, as a program: the nodes' Python interpreter may be another one than ``ros2``'s.
"""

from __future__ import annotations

import argparse
import logging
import sys
from dataclasses import dataclass

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.load import LOGGER, load_engine
from vla_edge_ros.errors import VlaEdgeError

NO_DEVICE = "no CUDA device answers"


@dataclass(frozen=True, slots=True)
class Choice:
    """``engine``: ``cuda`` or ``numpy``; ``reason``: in one line, why not CUDA; empty where it is taken."""

    engine: str
    reason: str = ""


def choose() -> Choice:
    """What ``auto`` takes for the default model; nothing is loaded."""
    said = _Said()
    LOGGER.addHandler(said)
    try:
        engine = load_engine(VlaConfig()).name
    except VlaEdgeError as error:
        return Choice("numpy", _one_line(str(error)))
    finally:
        LOGGER.removeHandler(said)
    return Choice(engine, "" if engine == "cuda" else "; ".join(said.lines) or NO_DEVICE)


class _Said(logging.Handler):
    """Keeps what the choice logs about itself."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(_one_line(record.getMessage()))


def _one_line(text: str) -> str:
    return " ".join(text.split())


@console_program
def main(arguments: list[str] | None = None) -> int:
    """Print the engine in the first line and, where it is not CUDA, the reason in the second."""
    parser = argparse.ArgumentParser(prog="engine_check", description=__doc__.partition("\n")[0])
    parser.parse_args(arguments)
    choice = choose()
    print(choice.engine)
    if choice.reason:
        print(choice.reason)
    return 0


if __name__ == "__main__":
    sys.exit(main())
