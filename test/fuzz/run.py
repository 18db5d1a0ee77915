# SPDX-License-Identifier: Apache-2.0
"""Random inputs for everything that reads what others wrote; findings are saved, shrunk, and listed.

``python test/fuzz/run.py --minutes 10 [--target bags --target images] [--seed N] [--save FOLDER]``
``python test/fuzz/run.py --target bags --replay FILE...``

A good result or one of the project's errors is right. Any other exception, a hang, a process that dies and,
where there is an oracle, a wrong result are findings; then the exit code is 1.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from byte_mutator import shrink
from pool import Worker
from worker import input_of

TARGETS = sorted(path.stem.removeprefix("target_") for path in Path(__file__).parent.glob("target_*.py"))


@dataclass
class Finding:
    """One fault: how often it was met, what it says, and the smallest input that shows it."""

    seed: str
    detail: str
    path: Path
    count: int = 1


@dataclass
class Tally:
    """What became of a target's inputs."""

    verdicts: Counter[str] = field(default_factory=Counter)
    findings: dict[str, Finding] = field(default_factory=dict)
    slowest_s: float = 0.0


def run_target(target: str, seed: int, first: int, cpu_s: float, cases: int | None, save: Path) -> Tally:
    """Cases ``seed/first``, ``seed/first + 1``, ... until ``cases`` have run or ``cpu_s`` are used."""
    tally, worker, number, used_s = Tally(), Worker(target), first, 0.0
    try:
        while used_s < cpu_s if cases is None else number < first + cases:
            name = f"{seed}/{number}"
            result = worker.run_seed(name)
            number += 1
            tally.verdicts[result["verdict"]] += 1
            tally.slowest_s = max(tally.slowest_s, result["cpu_s"])
            used_s += max(result["cpu_s"], 0.001)
            if result["verdict"] == "finding":
                _keep(tally, worker, name, result["signature"], result["detail"], save)
    finally:
        worker.close()
    return tally


def _keep(tally: Tally, worker: Worker, seed: str, signature: str, detail: str, save: Path) -> None:
    if signature in tally.findings:
        tally.findings[signature].count += 1
        return
    print(f"{worker.target} {seed}: {signature}", flush=True)
    data = _shrunk(worker, input_of(worker.target, seed), signature)
    save.mkdir(parents=True, exist_ok=True)
    path = save / f"{worker.target}-{sha256(signature.encode()).hexdigest()[:10]}"
    path.write_bytes(data)
    path.with_suffix(".txt").write_text(f"{worker.target} {seed}\n{signature}\n\n{detail}\n")
    tally.findings[signature] = Finding(seed, detail, path)


def _shrunk(worker: Worker, data: bytes, signature: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        candidate = Path(folder) / "input"

        def still_fails(smaller: bytes) -> bool:
            candidate.write_bytes(smaller)
            return worker.run_file(candidate).get("signature") == signature

        return data if signature.startswith("hang") else shrink(data, still_fails)


def replay(target: str, paths: list[Path]) -> bool:
    """Run saved inputs again; print what becomes of each; whether none is a finding."""
    worker, is_clean = Worker(target), True
    try:
        for path in paths:
            result = worker.run_file(path)
            is_clean &= result["verdict"] != "finding"
            print(f"{path}: {result['verdict']} {result.get('signature', '')}\n{result.get('detail', '')}")
    finally:
        worker.close()
    return is_clean


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--target", action="append", choices=TARGETS, help="may be repeated; all by default")
    parser.add_argument("--minutes", type=float, default=1.0, help="of CPU time, shared by the targets")
    parser.add_argument("--cases", type=int, help="inputs a target, instead of minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument(
        "--save", type=Path, default=Path("build/fuzz"), help="where inputs that fail are kept"
    )
    parser.add_argument("--replay", type=Path, nargs="+", default=[], help="saved inputs of one target")
    options = parser.parse_args()
    targets = options.target or TARGETS
    if options.replay:
        if len(targets) != 1:
            parser.error("--replay needs one --target")
        sys.exit(not replay(targets[0], options.replay))
    found = 0
    for target in targets:
        cpu_s = options.minutes * 60 / len(targets)
        tally = run_target(target, options.seed, options.first, cpu_s, options.cases, options.save)
        counts = ", ".join(f"{count} {verdict}" for verdict, count in tally.verdicts.most_common())
        print(f"{target}: {counts}; slowest {tally.slowest_s:.2f} s of CPU time", flush=True)
        for signature, finding in sorted(tally.findings.items()):
            print(f"  {finding.count} x {signature}\n    seed {finding.seed}, {finding.path}")
        found += len(tally.findings)
    print(f"{found} findings")
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
