# SPDX-License-Identifier: Apache-2.0
"""Tables of the studies: eviction policies on footage, admission rules and remembering on cost traces."""

from __future__ import annotations

from vla_edge_ros.bench.figures.data import Row, row, rows, table

_JOINED = (
    "fifo",
    "semantic",
    "semantic_newer",
    "reservoir",
    "time_thinning",
    "bridge",
    "bridge_distance",
    "novelty",
)
_LOOKING_BACK = ("semantic", "reservoir", "time_thinning", "bridge", "bridge_distance", "novelty")


def joined_table() -> str:
    """The stream of all clips joined, by cache size and policy."""
    lines = []
    for kept in (126, 64, 32):
        for policy in _JOINED:
            found = row("retention", clip="joined", policy=policy, frames_kept=kept)
            lines.append((str(kept), f"`{policy}`", *_scores(found)))
    header = ("frames kept", "policy", "mean", "p95", "max", "shape mean", "shape p95")
    return table((*header, "largest hole", "latest 8", "scene recall", "glitches"), lines)


def _scores(found: Row) -> tuple[str, ...]:
    coverage = tuple(f"{found[f'coverage_{what}']:.1f}" for what in ("mean", "p95", "max"))
    shape = (f"{found['shape_mean']:.3f}", f"{found['shape_p95']:.2f}")
    rest = (f"{found['largest_hole']:.3f}", f"{found['recent_kept']:.1f}", f"{found['scene_recall']:.2f}")
    return (*coverage, *shape, *rest, str(found["glitch_kept"]))


def clips_table() -> str:
    """Colour distance of the single clips."""
    pairs = dict.fromkeys((each["clip"], each["frames_kept"]) for each in rows("retention"))
    lines = []
    for clip, kept in sorted(pairs, key=lambda pair: (pair[0], -pair[1])):
        if clip == "joined":
            continue
        cells = [clip, str(kept)]
        for policy in _LOOKING_BACK:
            found = row("retention", clip=clip, policy=policy, frames_kept=kept)
            cells.append(" / ".join(f"{found[f'coverage_{what}']:.1f}" for what in ("mean", "p95", "max")))
        lines.append(cells)
    return table(("clip", "kept", *(f"`{policy}`" for policy in _LOOKING_BACK)), lines)


def admission_table() -> str:
    """Every scenario under every rule: admitted / late / aborted / useful of what was feasible."""
    traces = list(dict.fromkeys(each["trace"] for each in rows("admission")))
    policies = list(dict.fromkeys(each["policy"] for each in rows("admission")))
    keys = ("admitted_percent", "late_percent", "aborted_percent", "useful_of_feasible_percent")
    lines = []
    for trace in traces:
        found = [row("admission", trace=trace, policy=policy) for policy in policies]
        lines.append((trace, *(" / ".join(f"{each[key]:g}" for key in keys) for each in found)))
    return table(("scenario", *policies), lines)


def remembering_table() -> str:
    """Share of frames in the memory, without and with frames that have no action; of actions likewise."""
    cases = dict.fromkeys(
        (each["scenario"], each["heavy_percent"], each["prefill_share"]) for each in rows("remembering")
    )
    lines = []
    for scenario, heavy, prefill in cases:
        cells = [scenario, str(heavy), f"{prefill:g}"]
        for policy in ("robust", "ema"):
            wanted = {"heavy_percent": heavy, "prefill_share": prefill, "policy": policy}
            found = row("remembering", scenario=scenario, **wanted)
            for what in ("kept", "acted"):
                cells.append(f"{found[f'{what}_before_percent']:.1f} / {found[f'{what}_percent']:.1f}")
        lines.append(cells)
    header = ("cycles", "heavy, %", "prefill's share")
    return table((*header, "`robust`: kept", "acted", "`ema`: kept", "acted"), lines)


def draft_passes_table() -> str:
    """Passes an action, by kind of draft and recording."""
    recordings = list(dict.fromkeys(each["recording"] for each in rows("draft-passes")))
    drafts = list(dict.fromkeys(each["draft"] for each in rows("draft-passes")))
    lines = []
    for name in recordings:
        means = [row("draft-passes", recording=name, draft=draft)["passes_mean"] for draft in drafts]
        lines.append((name.removesuffix(".csv"), *(f"{mean:.2f}" for mean in means)))
    return table(("recorded run", *(f"`{draft}`" for draft in drafts)), lines)
