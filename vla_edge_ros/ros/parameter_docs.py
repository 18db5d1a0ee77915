# SPDX-License-Identifier: Apache-2.0
"""The parameter reference, made from the configuration classes; run as a module, it writes the page."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

from vla_edge_ros.config import VlaConfig
from vla_edge_ros.console import console_program
from vla_edge_ros.replay.config import ReplayConfig
from vla_edge_ros.ros.parameter_tree import Leaf, leaves
from vla_edge_ros.ros.parameters import NodeConfig
from vla_edge_ros.tabletop.config import TabletopConfig

PAGE = Path("docs/reference/parameters.md")  # below the repository's root

INTRODUCTION = """\
# Parameters

Made from the configuration classes by `python -m vla_edge_ros.ros.parameter_docs`; do not edit. Units are in
the names. A parameter file uses the key `/**:` or the node's full name. Values are checked together when the
node is configured; the error starts with the parameter's name.

## vla_reasoner

`prompt.instruction` may change at any time, also through the topic `instruction`. The others are read when
the node is configured: to change one, clean the node up, set it, configure again. The quality of service of
the image subscription is set with `qos_overrides.<full topic name>.subscription.reliability` (and `.depth`,
`.history`), at start only.
"""

CAMERA = """
## camera (the replay node)

Read when the node starts; a later change is refused.
"""

TABLETOP = """
## tabletop (the simulated robot)

Read when the node starts; a later change is refused. How to use it:
[run the simulated robot](../how-to/run-the-simulated-robot.md).
"""


def render() -> str:
    """The whole page as Markdown."""
    page = [INTRODUCTION, *_table(leaves(NodeConfig))]
    for section, group in groupby(leaves(VlaConfig), lambda leaf: leaf.name.split(".")[0]):
        page += [f"\n### {section}\n", *_table(group)]
    page += [CAMERA, *_table(leaves(ReplayConfig))]
    page += [TABLETOP, *_table(leaves(TabletopConfig))]
    return "\n".join(page) + "\n"


def _table(group: Iterable[Leaf]) -> list[str]:
    rows = ["| parameter | type | default | meaning | values |", "|---|---|---|---|---|"]
    for leaf in group:
        cells = (f"`{leaf.name}`", leaf.kind, _literal(leaf.default), leaf.description, leaf.constraints)
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _literal(value: object) -> str:
    """A default as one would write it in a parameter file."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        if len(value) > 1 and len(set(value)) == 1:
            return f"`{value[0]}`, {len(value)} times"
        return "`[" + ", ".join(str(item) for item in value) + "]`"
    return f"`{value}`" if value != "" else "`''`"


@console_program
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="parameter_docs", description=__doc__)
    parser.add_argument("page", nargs="?", type=Path, default=PAGE, help="the file to write")
    parser.parse_args(arguments).page.write_text(render(), encoding="utf-8")


if __name__ == "__main__":
    main()
