# SPDX-License-Identifier: Apache-2.0
"""Tables of the whole graph and of a cycle's parts (``live-*.json``, ``slot.json`` and their like)."""

from __future__ import annotations

from vla_edge_ros.bench.figures.chunk_tables import engine_row, soaked_chunks
from vla_edge_ros.bench.figures.data import Row, aborted, count, latency, pair, row, rows, short, table
from vla_edge_ros.bench.studies.closed_loop_rows import DEFAULT, delay_of

LIVE_RUNS = {
    "live-h200-16.7ms-no-drafts": "16.7 ms, 15 minutes, `engine.draft: none`",
    "live-h200-16.7ms-drafts": "16.7 ms, 15 minutes, default (drafts)",
    "live-h200-16.7ms-90s": "16.7 ms, 90 seconds, default (drafts), the newest build",
    "live-h200-33ms": "33 ms, 10 minutes, before drafts and the persistent kernel",
}

NAMES = ("median", "p99", "max")


def live(name: str) -> Row:
    return rows(name)[0]


def live_table() -> str:
    """The whole graph on one H200, at two control periods."""
    lines = []
    for name, what in LIVE_RUNS.items():
        run = live(name)
        counts = [count(run[key]) for key in ("cycles", "fresh", "refused")]
        lines.append((what, *counts, count(aborted(run)), count(run["late_messages"]), latency(run)))
    header = ("period and length", "cycles", "fresh actions", "refused", "aborted", "late messages")
    return table((*header, "latency of fresh actions, median / p99 / max, ms"), lines)


def parts_table() -> str:
    """Parts of a cycle, and the graph with a tiny model, on two cores without a GPU."""
    camera = row("camera", camera="replay node")
    timer = row("camera", camera="plain rclpy timer")
    overhead, endless = rows("cycle-overhead")[0], row("endless-stream", what="bookkeeping")

    def three(found: Row, key: str, scale: float = 1.0) -> str:
        return " / ".join(short(found[key.format(name)] / scale) for name in NAMES)

    vga = row("image_callback", encoding="rgb8", width=640, padding_bytes=0)
    hd = row("image_callback", encoding="rgb8", width=1920, padding_bytes=0)
    write = row("slot", operation="native write")
    latest = row("slot", operation="native latest, new frame")
    lines = [
        ("gap between camera images at 60 Hz, beside the reasoner", f"{three(camera, 'gap_ms_{}')} ms"),
        ("the same with a plain rclpy timer", f"{three(timer, 'gap_ms_{}')} ms"),
        ("frame slot, native write", f"{three(write, '{}_ns', 1000)} us"),
        ("frame slot, native read of a new frame", f"{three(latest, '{}_ns', 1000)} us"),
        ("image callback, rgb8, 640x480", f"{three(vga, 'callback_us_{}', 1000)} ms"),
        ("image callback, rgb8, 1920x1080", f"{three(hd, 'callback_us_{}', 1000)} ms"),
        ("a cycle without its engine", f"{three(overhead, '{}', 1000)} ms"),
        (
            f"bookkeeping of {count(endless['frames'])} frames",
            f"{endless['us_a_frame_early']:.0f} us a frame at the start, "
            f"{endless['us_a_frame_late']:.0f} us at the end",
        ),
    ]
    return table(("what", "median / p99 / max"), lines)


def repeats() -> str:
    """How often a draft of the last action would be accepted whole: least and most of the tasks."""
    shares = sorted(
        found["action_repeated"]
        for found in rows("closed-loop")
        if (found["policy"], found["decoding"], found["slots"]) == (DEFAULT, "parallel", 1024)
        and (found["model"], found["trouble"], found["weights"]) == ("trained", "none", "bf16")
        and not found["lag"]
        and not found["refused"]
        and found["delay"] in (0, delay_of(1024))
    )
    return f"{100 * shares[0]:.0f} to {100 * shares[-1]:.0f} % of the cycles, by task"


def trained_run(name: str) -> str:
    """Episodes of all tasks together, and how the cycles went."""
    tasks = [found for found in rows(name) if "task" in found]
    cycles = [found for found in rows(name) if "cycles" in found]
    episodes = sum(found["episodes"] for found in tasks)
    succeeded = sum(round(found["success"] * found["episodes"]) for found in tasks)
    late, total = (sum(found[key] for found in cycles) for key in ("late_messages", "cycles"))
    return (
        f"right button touched in {succeeded} of {episodes} episodes; {late} late messages in {count(total)} "
        f"cycles, p99 latency at most {max(found['latency_ms_p99'] for found in cycles):.1f} ms"
    )


def tabletop_table() -> str:
    """The trained policy through ROS in real time."""
    lines = []
    for name, machine in (("tabletop-h200", "H200, CUDA"), ("tabletop-cpu", "2 cores, NumPy")):
        cycles = [found for found in rows(name) if "cycles" in found]
        total, acted = (sum(found[key] for found in cycles) for key in ("cycles", "acted"))
        late = sum(found["late_messages"] for found in cycles)
        worst = max(found["latency_ms_p99"] for found in cycles)
        for found in rows(name):
            if "task" in found:
                success = f"{100 * found['success']:.0f} % ({100 * found['success_low']:.0f} to "
                success += f"{100 * found['success_high']:.0f})"
                lines.append(
                    (
                        f"{machine}, {found['camera_hz']} Hz, {len(cycles)} at a time"
                        if len(cycles) > 1
                        else f"{machine}, {found['camera_hz']} Hz",
                        f"`{found['task']}`",
                        str(found["delay"]),
                        str(found["episodes"]),
                        success,
                        f"{count(acted)} of {count(total)}",
                        str(late),
                        f"{worst:.1f}",
                    )
                )
    header = ("machine and camera", "task", "delay", "episodes", "success", "cycles acted")
    return table((*header, "late messages", "p99 latency, ms"), lines)


def measured_table() -> str:
    """The README's table: what a reader may expect, the worse case before the better one."""
    calm, trouble = live("live-calm"), live("live-trouble")
    plain, default = live("live-h200-16.7ms-no-drafts"), live("live-h200-16.7ms-drafts")
    compiled = row("chunk-h200", engine="torch compiled, cuda graph")["chunk_ms"]
    eager = row("chunk-h200", engine="hugging face eager")["chunk_ms"]

    def graph(run: Row) -> str:
        return (
            f"{count(run['fresh'])} of {count(run['cycles'])} cycles fresh, {aborted(run)} aborted, "
            f"{run['late_messages']} late messages; latency of fresh actions {latency(run)} ms"
        )

    def chunk(weights: str, draft: str) -> str:
        return f"{pair(engine_row(weights, draft)['chunk_ms'])} ms"

    def answered(run: Row) -> str:
        once = run["cycles"] - run["controller"]["cycles_missing"] - run["controller"]["cycles_twice"]
        return f"{count(once)} of {count(run['cycles'])} cycles answered exactly once"

    differences = sum(each["differences"] for each in rows("chunk-soak"))
    share = 100 * calm["fresh"] / calm["cycles"]
    parallel = row("chunk-parallel-h200", decoding="parallel")["chunk_ms"]
    lines = [
        (
            "**H200, one chunk** of 1.5 B sizes, tokens one after the other, without drafts, bf16",
            chunk("bf16", "off"),
        ),
        ("the same, int8 / int4 weights", f"{chunk('int8', 'off')}, {chunk('int4', 'off')}"),
        ("the same, default (drafts), every draft token rejected", chunk("bf16", "rejected")),
        ("the same, every draft token accepted (only while an action repeats)", chunk("bf16", "accepted")),
        (
            "all tokens in one pass (`action.decoding: parallel`, a checkpoint that is trained so), bf16",
            f"{pair(parallel)} ms",
        ),
        ("how often the trained policy of the simulated table repeats its action as it moves", repeats()),
        ("the same in torch.compile with a CUDA graph", f"{pair(compiled)} ms"),
        ("the same in Hugging Face transformers, eager", f"{pair(eager)} ms"),
        (
            "**H200, whole graph**, random weights of 1.5 B sizes, 16.7 ms, 15 minutes, without drafts",
            graph(plain),
        ),
        ("the same, default (drafts)", graph(default)),
        (
            "**H200, trained policy** of 1 M parameters on the simulated arm, 60 Hz, seven graphs at once",
            trained_run("tabletop-h200"),
        ),
        ("the same on 2 CPU cores, 30 Hz, one graph beside other programs", trained_run("tabletop-cpu")),
        (
            f"{soaked_chunks()} chunks back to back, drafts of every kind",
            f"{differences} differed (tokens of each, all bits of each tenth)",
        ),
        (
            "**2 CPU cores, tiny model**, 33 ms period, 30 minutes",
            f"{answered(calm)}, {share:.1f} % fresh, {calm['late_messages']} late messages",
        ),
        (
            "the same, 10 minutes of trouble (slow engine, dead camera, stalls)",
            f"{answered(trouble)}, {trouble['late_messages']} late messages",
        ),
    ]
    return table(("what", "measured (median / p99, or median / p99 / max)"), lines)
