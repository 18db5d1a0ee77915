# SPDX-License-Identifier: Apache-2.0
"""``python -m vla_edge_ros.bench.studies.memory_animation``: the README's animation of two memories.

One recall episode, played twice by the trained policy: under ``fifo`` and under the default eviction policy.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from vla_edge_ros.bench.studies.closed_loop_rows import DEFAULT, FIRST_SEED, Case, config_of
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.shipped_models import MODELS
from vla_edge_ros.tabletop.animation import frames_of, record, write_gif
from vla_edge_ros.tabletop.lockstep import Stream
from vla_edge_ros.tabletop.tasks import draw


@console_program
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", type=Path, default=MODELS / "tabletop-1024")
    parser.add_argument(
        "--episode", type=int, default=0, help="number of the episode, from the first held-out one"
    )
    parser.add_argument(
        "--delay", type=int, default=280, help="cycles between the cue and the brake's release"
    )
    parser.add_argument("--out", type=Path, default=Path("docs/images/two-memories.gif"))
    options = parser.parse_args()
    plan = draw("recall", FIRST_SEED + options.episode, options.delay)
    case, recorded, room = Case(task="recall"), {}, 0
    for policy in ("fifo", DEFAULT):
        config = config_of(replace(case, policy=policy), str(options.model), "numpy")
        engine = load_engine(config)
        engine.load()
        stream = Stream(config, engine)
        recorded[policy] = record(stream, plan)
        room = stream.room
        engine.close()
        print(f"{policy}: {recorded[policy][-1].outcome}")
    frames = frames_of(plan, recorded, room)
    write_gif(options.out, frames)
    print(f"wrote {options.out}: {len(frames)} frames, {options.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
