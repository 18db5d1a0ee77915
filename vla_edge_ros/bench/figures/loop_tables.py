# SPDX-License-Identifier: Apache-2.0
"""Tables of the simulated table: success of the trained policy, and what policies keep of the cue."""

from __future__ import annotations

from vla_edge_ros.bench.figures.data import Row, rows, table


def share(found: Row, name: str) -> str:
    """``93 % (88 to 96)``: with its 95 % interval."""
    low, high = found[f"{name}_low"], found[f"{name}_high"]
    return f"{100 * found[name]:.0f} % ({100 * low:.0f} to {100 * high:.0f})"


_MODELS = {
    "expert": "the scripted expert, no model",
    "random": "random weights",
    "trained": "trained weights",
}
_TROUBLES = {
    "none": "",
    "frozen_camera": ", the camera shows its first picture for ever",
    "wrong_instruction": ", the instruction of another button or task",
}


def _is_plain(found: Row) -> bool:
    normal = {"model": "trained", "trouble": "none", "weights": "bf16", "lag": 0, "refused": 0.0}
    return normal.items() <= found.items() and found["decoding"] == "parallel"


def _place(found: Row) -> tuple[str, ...]:
    return f"`{found['task']}`", str(found["delay"]), str(found["episodes"])


def closed_loop_table() -> str:
    """Trained weights, nothing in the way: task by policy by slots."""
    lines = [
        (
            f"{found['slots']:,}",
            f"`{found['task']}`",
            f"`{found['policy']}`",
            str(found["delay"]),
            str(found["episodes"]),
            share(found, "success"),
            share(found, "cue_kept_at_end") if found["delay"] else "",
            f"{found['action_repeated']:.0%}",
        )
        for found in rows("closed-loop")
        if _is_plain(found)
    ]
    header = ("slots", "task", "eviction", "delay", "episodes", "success", "cue kept", "same action")
    return table(header, lines)


def controls_table() -> str:
    """What happens where the policy cannot know the answer, and where it needs none."""
    lines = [
        (_MODELS[found["model"]] + _TROUBLES[found["trouble"]], *_place(found), share(found, "success"))
        for found in rows("closed-loop")
        if found["model"] != "trained" or found["trouble"] != "none"
    ]
    return table(("who acts", "task", "delay", "episodes", "success"), lines)


def timing_table() -> str:
    """Actions that come late, and cycles without a chunk."""
    lines = []
    for found in rows("closed-loop"):
        if not found["lag"] and not found["refused"]:
            continue
        fallback = "repeated, 3 at most" if found["repeats"] else "zero motion"
        kept = "yes" if found["remember"] else "no"
        what = (
            (f"{found['lag']} cycles late", "", "")
            if found["lag"]
            else (f"{found['refused']:.0%} refused", fallback, kept)
        )
        cue = share(found, "cue_kept_at_end") if found["delay"] else ""
        lines.append((*_place(found), *what, share(found, "success"), cue))
    return table(
        ("task", "delay", "episodes", "cycles", "answered by", "frame remembered", "success", "cue kept"),
        lines,
    )


def formats_table() -> str:
    """Integer weights, and the other way of decoding; times are of the machine that played."""
    found_rows = [
        found
        for found in rows("closed-loop")
        if (found["weights"] != "bf16" or found["decoding"] != "parallel") and found["slots"] == 1024
    ]
    lines = [
        (found["decoding"], found["weights"], *_place(found), share(found, "success")) for found in found_rows
    ]
    return table(("decoding", "weights", "task", "delay", "episodes", "success"), lines)


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
