# SPDX-License-Identifier: Apache-2.0
"""The report's sections about what is held and achieved: memory, kept frames, decoding, tasks."""

from __future__ import annotations

import numpy as np

from vla_edge_ros.bench.run import measures
from vla_edge_ros.bench.run.blocks import Figure, Section, Table, shown
from vla_edge_ros.bench.run.charts import Bar, bar_chart
from vla_edge_ros.bench.run.plots import plot, strips
from vla_edge_ros.bench.run.retention import SAME, is_one_rule, retention, same_kept
from vla_edge_ros.bench.run.sampler import DEVICE
from vla_edge_ros.bench.run.trial_data import RunData, TrialData

ENOUGH_FOR_GROWTH_S = 600.0


def memory_section(run: RunData) -> Section:
    found = {policy: measures.memory(run.of(policy)) for policy in run.policies}
    rows = [
        [policy, name, each["peak_mb"], each["growth_mb"]]
        for policy, parts in found.items()
        for name, each in parts.items()
    ]
    said = "; ".join(
        f"{policy} {shown('mb', parts['reasoner']['peak_mb'])} MiB"
        for policy, parts in found.items()
        if "reasoner" in parts
    )
    alt = f"Resident memory of the reasoner's process over the first trial of each policy; peaks: {said}"
    answers = [
        f"Peak of the reasoner's process: {said}.",
        "Sampled every 100 ms from outside, by the process that started the others: resident memory, which "
        "counts shared libraries in full. The growth is that of the measured stretch of the first trial.",
    ]
    devices = [parts[DEVICE]["peak_mb"] for parts in found.values() if DEVICE in parts]
    if devices:
        answers.append(
            f"GPU memory is that of the whole device less what was in use before the trial: "
            f"{shown('mb', max(devices))} MiB at most."
        )
    else:
        answers.append("No NVIDIA driver answers on this machine, so there is no GPU memory to show.")
    if run.document["plan"]["duration_s"] < ENOUGH_FOR_GROWTH_S:
        answers.append("Trials this short say nothing of growth over hours: use --duration 1800 for that.")
    figures = []
    for name, title in (("reasoner", "Resident memory of the reasoner's process"), (DEVICE, "GPU memory")):
        series = {
            policy: [(s.at_s, s.mb) for s in run.of(policy)[0].memory if s.name == name]
            for policy in run.policies
        }
        series = {policy: points for policy, points in series.items() if points}
        if series:
            words = alt if name == "reasoner" else "GPU memory in use over the first trial of each policy"
            warmup_s = float(run.document["plan"]["warmup_s"])
            drawing = plot(
                series, words, ("seconds since the first picture", "MiB"), joined=True,
                marks={"measured from here": warmup_s},
            )  # fmt: skip
            figures.append(Figure(f"memory-{name}", f"{title}, first trial of each policy", words, drawing))
    columns = [
        ("policy", "text"), ("process", "text"), ("peak, MiB", "mb"), ("growth while measured, MiB", "mb"),
    ]  # fmt: skip
    return Section(
        "memory",
        "How much memory does it take, and does it grow?",
        answers,
        [Table("Memory, from outside", columns, rows)] if rows else [],
        figures,
    )


def retention_section(run: RunData) -> Section:
    found = {policy: retention(run.of(policy)) for policy in run.policies}
    found = {policy: each for policy, each in found.items() if each["looks"]}
    rows, said = [], []
    for policy, each in found.items():
        rows.append(
            [policy, each["looks"], each["frames"], each["oldest_s"], each["median_age_s"],
             each["largest_hole_s"]]
        )  # fmt: skip
        said.append(f"{policy} reaches {each['oldest_s']:.1f} s back with {each['frames']:.0f} frames")
    columns = [
        ("policy", "text"), ("looks", "count"), ("frames in view", "count"), ("oldest, s", "s"),
        ("median age, s", "s"), ("largest hole, s", "s"),
    ]  # fmt: skip
    figures = [
        _kept_over_time(run.of(policy)[0], policy, index)
        for index, policy in enumerate(run.policies)
        if policy in found
    ]
    figures += [figure for policy in found if (figure := _thumbnails(run.of(policy)[0], policy))]
    return Section(
        "retention",
        "What does each policy keep?",
        [
            f"In the median: {'; '.join(said)}." if said else "No frame was kept.",
            "In view of the model, once a second, by the pages of its own cache. A hole is the longest time "
            "between two frames in view that follow each other.",
            same_rule(run),
        ],
        [Table("Frames in view of the model", columns, rows)] if rows else [],
        figures,
    )


def same_rule(run: RunData) -> str:
    """That two of the policies are one rule here, and what shows it."""
    if not is_one_rule(run):
        window = run.trials[0].config["cache"]["window_frames"]
        return f"sliding_window keeps the newest {window} frames here, fifo as many as the cache holds."
    each = same_kept(run.trials)
    shown_by = (
        f"shown on the frames of these trials, which were replayed through both: after "
        f"{each['differing']} of {each['frames']:,} frames the kept ones differed"
    )
    both = all(name in run.policies for name in SAME)
    use = (
        " What differs between these two in this report is the noise of this machine: measure the other "
        "differences by it."
        if both
        else ""
    )
    return (
        "sliding_window is fifo wherever all frames have one size and cache.window_frames is 0 (the "
        f"default): both forget the oldest frame when the cache is full; {shown_by}.{use}"
    )


def _kept_over_time(trial: TrialData, policy: str, colour: int) -> Figure:
    points = [(note["at_s"], kept_s) for note in trial.kept for kept_s in note["kept_s"]]
    last = trial.kept[-1]
    alt = (
        f"{policy}: when the frames in view were taken, over the trial. At the end, {last['at_s']:.0f} s, "
        f"{len(last['kept_s'])} frames from {min(last['kept_s']):.1f} s to {max(last['kept_s']):.1f} s"
    )
    drawing = plot(
        {policy: points}, alt, ("time of the trial, s", "a frame in view was taken at, s"), joined=False,
        from_zero=False, height=190, first_colour=colour,
    )  # fmt: skip
    caption = f"{policy}: a vertical line through the dots meets the frames in view at that moment"
    return Figure(f"kept-{policy}", caption, alt, drawing)


def _thumbnails(trial: TrialData, policy: str) -> Figure | None:
    rows, words = [], []
    for note in trial.kept:
        path = trial.folder / note.get("file", "")
        if "file" not in note or not path.is_file():
            continue
        try:
            pictures = np.load(path)
        except (OSError, ValueError):  # the trial was ended while it was written
            continue
        rows.append(
            (
                f"at {note['at_s']:.0f} s",
                pictures,
                [f"{max(0.0, shown_s):.1f} s" for shown_s in note["shown_s"]],
            )
        )
        words.append(f"at {note['at_s']:.0f} s from {note['shown_s'][0]:.1f} to {note['shown_s'][-1]:.1f} s")
    if not rows:
        return None
    alt = f"Pictures that {policy} has in view, evenly chosen: {'; '.join(words)}"
    caption = (
        f"{policy}: up to 12 of the frames in view, from the oldest to the newest, and when they were taken"
    )
    return Figure(f"pictures-{policy}", caption, alt, strips(rows, alt))


def decoding_section(run: RunData) -> Section:
    found = {policy: measures.decoding(run.of(policy)) for policy in run.policies}
    one = next(iter(found.values()))
    rows = [
        [policy, each["actions"], each["passes_mean"], each["drafted"], each["repeated"], each["compared"]]
        for policy, each in found.items()
    ]
    mode = (
        f"All {one['action_tokens']} action tokens are decoded in parallel, in the frame's own pass: "
        "there is nothing to draft."
        if one["mode"] == "parallel"
        else f"Tokens are decoded one after another; engine.draft is {one['draft']}. Without an "
        f"accepted draft an action takes {one['action_tokens']} passes, the frame's own included."
    )
    drafted = sum(each["drafted"] for each in found.values())
    saved = max(one["action_tokens"] - each["passes_mean"] for each in found.values())
    if one["mode"] != "parallel" and drafted:
        mode += (
            f" Drafts saved {shown('ms', max(0.0, saved))} passes an action at most, in the mean of a policy."
        )
    if one["mode"] != "parallel" and run.document["plan"]["engine"] == "numpy" and drafted:
        mode += " The NumPy engine is offered drafts and checks none."
    passes = {
        policy: ", ".join(f"{count} passes {times:,}" for count, times in each["passes"].items()) or "none"
        for policy, each in found.items()
    }
    alt = "Mean number of passes an action. " + "; ".join(
        f"{policy}: {text}" for policy, text in passes.items()
    )
    bars = [Bar(policy, each["passes_mean"], passes[policy]) for policy, each in found.items()]
    columns = [
        ("policy", "text"), ("fresh actions", "count"), ("passes an action", "number"),
        ("offered a draft", "count"), ("same tokens as the action before", "count"), ("of", "count"),
    ]  # fmt: skip
    return Section(
        "decoding",
        "How are actions decoded, and did drafts save passes?",
        [mode, "Drafts save passes only where an action repeats the one before it."],
        [Table("Passes and drafts", columns, rows)],
        [Figure("decoding", "Passes an action", alt, bar_chart(bars, alt, "", 1.0))],
    )


def success_section(run: RunData) -> Section | None:
    """None where the source is no task."""
    if run.document["plan"]["source"] != "tabletop":
        return None
    rows, bars, said = [], [], []
    for policy in run.policies:
        for each in measures.success(run.of(policy)):
            label = f"{policy}, {each['task']}"
            rows.append(
                [policy, each["task"], each["delay"], each["episodes"], each["succeeded"], each["share"],
                 each["low"], each["high"]]
            )  # fmt: skip
            note = f"{each['succeeded']} of {each['episodes']}"
            bars.append(Bar(label, 100 * each["share"], note, 100 * each["low"], 100 * each["high"]))
            said.append(f"{label}: {note}")
    alt = f"Success by policy and task: {'; '.join(said)}"
    columns = [
        ("policy", "text"), ("task", "text"), ("delay", "count"), ("episodes", "count"),
        ("succeeded", "count"), ("success", "share"), ("95 % from", "share"), ("to", "share"),
    ]  # fmt: skip
    answer = f"Episodes in which the arm touched the right button: {'; '.join(said)}." if said else (
        "No episode ended in the time of a trial; give it longer, as in --duration 120."
    )  # fmt: skip
    return Section(
        "success",
        "Does the robot do its task?",
        [
            answer,
            "Every policy plays the episodes of the same seeds, as many as fit into its time. Intervals are "
            "Wilson's for 95 %; where two overlap widely, these episodes cannot tell the policies apart.",
        ],
        [Table("Success on the simulated table", columns, rows)] if rows else [],
        [Figure("success", "Success, with 95 % intervals", alt, bar_chart(bars, alt, " %", 100.0))]
        if rows
        else [],
    )
