# SPDX-License-Identifier: Apache-2.0
"""Write every figure of the documents anew from ``docs/benchmarks/*.json``.

``python -m vla_edge_ros.bench.figures [--check]``

A page marks a place with ``<!-- figures: NAME -->`` and ``<!-- end -->``; what stands between them is
replaced by the table, or where both are on one line by the figure, of that name. ``--check`` changes nothing
and fails where a page or the picture is not what the data say.
"""

from __future__ import annotations

import argparse
import sys

from vla_edge_ros.bench.figures.data import FOLDER
from vla_edge_ros.bench.figures.pages import stale
from vla_edge_ros.console import console_program


@console_program
def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="figures", description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only tell which files are out of date")
    options = parser.parse_args(arguments)
    if not FOLDER.is_dir():
        parser.error(f"expected a checkout with the data files in {FOLDER}")
    found = stale()
    for path, text in found.items():
        print(f"{'out of date' if options.check else 'written'}: {path}")
        if not options.check:
            path.write_text(text, encoding="utf-8")
    return 1 if found and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
