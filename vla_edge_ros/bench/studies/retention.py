# SPDX-License-Identifier: Apache-2.0
"""Which frames each eviction policy keeps of real footage, and how well they stand for all that was seen.

``python -m vla_edge_ros.bench.studies.retention`` plays every clip of a folder, and all of them joined into
one stream with known cuts, through every policy at several cache sizes; it prints the table, writes it as
JSON and draws what is kept over time. The memory and the policies are those of the node.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from vla_edge_ros.bench.report import command, print_table, write_json
from vla_edge_ros.bench.studies.footage import join, read_clips
from vla_edge_ros.bench.studies.retention_replay import JOINED, default_data, prepare, run
from vla_edge_ros.console import console_program

_PIECE_FRAMES = 150


@console_program
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--clips", type=Path, default=default_data(), help="folder of videos")
    parser.add_argument("--json", type=Path, default=Path("docs/benchmarks/retention.json"))
    parser.add_argument("--images", type=Path, default=Path("docs/images"), help="folder for the plots")
    options = parser.parse_args()

    from vla_edge_ros.bench.studies.retention_plot import draw_all  # needs matplotlib

    clips = read_clips(options.clips)
    streams = [prepare(footage) for footage in [*clips, join(JOINED, clips, _PIECE_FRAMES)]]
    rows = run(streams)
    print_table(rows)
    write_json(options.json, command("studies.retention"), rows)
    for path in draw_all(streams, rows, options.images):
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
