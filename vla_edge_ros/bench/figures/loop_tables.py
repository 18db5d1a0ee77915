# SPDX-License-Identifier: Apache-2.0
"""Tables of the simulated table: success of the trained policy, and what policies keep of the cue."""

from __future__ import annotations

from vla_edge_ros.bench.figures.data import Row, rows, table


def share(found: Row, name: str) -> str:
    """``93 % (88 to 96)``: with its 95 % interval."""
    low, high = found[f"{name}_low"], found[f"{name}_high"]
    return f"{100 * found[name]:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


def closed_loop_table() -> str:
    """Every row that was played with trained weights, in the order of the file."""
    lines = []
    for found in rows("closed-loop"):
        kept = share(found, "cue_kept_at_end") if found["delay"] and found["model"] == "trained" else ""
        conditions = [] if found["trouble"] == "none" else [found["trouble"].replace("_", " ")]
        conditions += [] if found["model"] == "trained" else [found["model"]]
        conditions += [f"lag {found['lag']}"] if found["lag"] else []
        conditions += [f"{found['refused']:.0%} refused"] if found["refused"] else []
        conditions += ["remembered"] if found["remember"] else []
        conditions += [found["weights"]] if found["weights"] != "bf16" else []
        lines.append(
            (
                f"`{found['task']}`",
                f"`{found['policy']}`",
                str(found["delay"]),
                ", ".join(conditions),
                str(found["episodes"]),
                share(found, "success"),
                kept,
                f"{found['action_repeated']:.0%}",
            )
        )
    header = ("task", "eviction", "delay", "conditions", "episodes", "success", "cue kept", "same action")
    return table(header, lines)


def cue_retention_table() -> str:
    """By task and room: the share of episodes that end with the cue in the cache."""
    found = rows("cue-retention")
    places = list(
        dict.fromkeys((each["task"], each["room"], each["delay"], each["episodes"]) for each in found)
    )
    lines = []
    for policy in dict.fromkeys(each["policy"] for each in found):
        cells = [f"`{policy}`"]
        for task, room, _, _ in places:
            one = next(
                each for each in found if (each["task"], each["room"], each["policy"]) == (task, room, policy)
            )
            cells.append(share(one, "kept_at_end"))
        lines.append(cells)
    titles = (f"{task}, {room} frames, delay {delay}, n = {count}" for task, room, delay, count in places)
    return table(("policy", *titles), lines)
