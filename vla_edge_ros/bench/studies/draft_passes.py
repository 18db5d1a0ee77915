# SPDX-License-Identifier: Apache-2.0
"""How many passes an action takes with each kind of draft, on recorded actions.

``python -m vla_edge_ros.bench.studies.draft_passes RUN/cycles.csv [...] [--json PATH]``

Reads the action tokens of recorded cycles (``recording.path``) and counts what the engine would have needed:
1 pass where all draft tokens are accepted, one more for each rejection. Without a draft an action takes as
many passes as it has tokens. The tokens themselves do not depend on the draft.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from vla_edge_ros.bench.report import command, print_table, write_json
from vla_edge_ros.console import console_program
from vla_edge_ros.engines.cuda.run.speculative_decoding import passes_needed
from vla_edge_ros.recording.cycle_table import read_table

Tokens = tuple[int, ...]
Drafter = Callable[[Sequence[Tokens]], Tokens]  # from the actions so far, newest last


def last_action(past: Sequence[Tokens]) -> Tokens:
    return past[-1] if past else ()


def extrapolated(past: Sequence[Tokens]) -> Tokens:
    """The last step between two actions once more, dimension by dimension: token ids are bins in order."""
    if len(past) < 2:
        return last_action(past)
    return tuple(2 * newest - before for before, newest in zip(past[-2], past[-1], strict=True))


def steady_extrapolated(past: Sequence[Tokens]) -> Tokens:
    """A dimension is extrapolated only where its last two steps were the same."""
    if len(past) < 3:
        return last_action(past)
    steps = zip(past[-3], past[-2], past[-1], strict=True)
    return tuple(2 * c - b if c - b == b - a else c for a, b, c in steps)


DRAFTS: dict[str, Drafter] = {
    "none": lambda past: (),
    "last_action": last_action,
    "extrapolated": extrapolated,
    "steady_extrapolated": steady_extrapolated,
}


def draft_rows(name: str, actions: Sequence[Tokens]) -> list[dict[str, Any]]:
    """One row a kind of draft: mean passes an action, and the share of actions by passes."""
    rows = []
    for draft, drafter in DRAFTS.items():
        passes = [passes_needed(truth, drafter(actions[:at])) for at, truth in enumerate(actions)]
        shares = Counter(passes)
        rows.append(
            {
                "recording": name,
                "draft": draft,
                "actions": len(actions),
                "passes_mean": sum(passes) / len(passes),
                "passes_p99": sorted(passes)[int(0.99 * (len(passes) - 1))],
                "shares": {str(count): shares[count] / len(passes) for count in sorted(shares)},
            }
        )
    return rows


@console_program
def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="+", help="cycles.csv of recorded runs")
    parser.add_argument("--json", default="")
    chosen = parser.parse_args(arguments)
    rows = []
    for table in chosen.tables:
        actions = [record.tokens for record in read_table(table) if record.tokens]
        if not actions:
            parser.error(f"expected recorded actions in {table}, got none")
        rows += draft_rows(table, actions)
    print_table([{k: v for k, v in row.items() if k != "shares"} for row in rows])
    if chosen.json:
        write_json(chosen.json, command("studies.draft_passes", arguments), rows)


if __name__ == "__main__":
    main()
