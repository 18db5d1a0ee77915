# SPDX-License-Identifier: Apache-2.0
"""The child process that runs inputs: what it does not survive is seen by its parent, ``pool.Worker``.

One JSON line a request on standard input, one a result on the descriptor that was standard output; what
libraries print goes to standard error.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import re
import resource
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random
from typing import Any

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parents[1]
MEMORY_ABOVE_START = 6 << 30  # of address space: threads' stacks count, touched or not
LONGEST_ERROR = 2000


def load_target(name: str) -> Any:
    """The module ``target_<name>``: ``make(random) -> bytes`` and ``check(data, folder) -> verdict``.

    ``check`` returns ``"good"``, ``"refused"`` or ``"no input"`` (the bytes are none of the target's files);
    whatever it raises is a finding.
    """
    for path in (ROOT, FOLDER):
        if str(path) not in sys.path:
            sys.path.insert(0, str(path))
    return importlib.import_module(f"target_{name}")


def input_of(target: str, seed: str) -> bytes:
    """The input that a seed stands for; the same in every process."""
    return load_target(target).make(Random(f"{target} {seed}"))


def refusal(error: Exception) -> str:
    """The verdict on one of the project's own errors: one line of text that says something."""
    text = str(error)
    assert text.strip(), f"{type(error).__name__} without a text"
    assert len(text.splitlines()) == 1, f"an error of several lines: {text!r}"
    assert len(text) < LONGEST_ERROR, f"an error of {len(text)} characters: {text[:200]!r}"
    return "refused"


def signature(error: BaseException) -> str:
    """What is told apart as one fault: the type, and the innermost place in the package or in a target."""
    frames = [(Path(frame.filename), frame.name) for frame in traceback.extract_tb(error.__traceback__)]
    own = [
        f"{path.name}:{name}"
        for path, name in frames
        if path.is_relative_to(ROOT / "vla_edge_ros") or path.name.startswith("target_")
    ]
    place = own[-1] if own else "elsewhere"
    words = re.sub(r"[0-9]+|'[^']*'|\"[^\"]*\"", "N", str(error).splitlines()[0] if str(error) else "")
    return f"{type(error).__name__} in {place}: {words[:80]}"


def run_case(module: Any, data: bytes) -> dict[str, Any]:
    begin_s = time.process_time()
    with tempfile.TemporaryDirectory(prefix="fuzz") as folder:
        try:
            result = {"verdict": module.check(data, Path(folder))}
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            result = {
                "verdict": "finding",
                "signature": signature(error),
                "detail": "".join(traceback.format_exception(error))[-4000:],
            }
    return {**result, "cpu_s": time.process_time() - begin_s}


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_ABOVE_START
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main(target: str) -> None:
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    faulthandler.enable()
    module = load_target(target)
    run_case(module, input_of(target, "warm up"))  # imports and thread pools are none of a case's memory
    _limit_memory()
    print(json.dumps({"verdict": "ready"}), file=replies, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        data = Path(request["file"]).read_bytes() if "file" in request else input_of(target, request["seed"])
        print(json.dumps(run_case(module, data)), file=replies, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
