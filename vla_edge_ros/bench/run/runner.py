# SPDX-License-Identifier: Apache-2.0
"""Trials one after another: start their processes, sample their memory, wait for their end."""

from __future__ import annotations

import time
from pathlib import Path

from vla_edge_ros.bench.run.device_memory import DeviceMemory
from vla_edge_ros.bench.run.machine_load import cpu_times, other_cores
from vla_edge_ros.bench.run.plan import Plan, Trial, write_parameters
from vla_edge_ros.bench.run.processes import CAMERA, REASONER, TrialProcesses, commands
from vla_edge_ros.bench.run.progress import Progress
from vla_edge_ros.bench.run.run_file import COMPLETE, FAILED, INCOMPLETE, RunFile
from vla_edge_ros.bench.run.sampler import MemorySampler
from vla_edge_ros.bench.run.trial_options import PARAMETER_FILE
from vla_edge_ros.bench.run.trial_state import DONE, RUNNING, read_state
from vla_edge_ros.errors import VlaEdgeError

POLL_S = 0.25
LONGEST_START_S = 900.0  # weights of a large model are made on the CPU
LONGEST_END_S = 60.0  # beyond the trial's own time
RECORDING = "recording"


def run_trials(plan: Plan, folder: Path, run_file: RunFile, progress: Progress) -> bool:
    """Whether all trials ran to their end; false after Ctrl-C, which ends the one that runs.

    A trial that fails is noted and the next one runs; where the very first one fails there is nothing to
    report, and ``VlaEdgeError`` says why.
    """
    device = DeviceMemory()
    for number, trial in enumerate(plan.trials()):
        began_s = time.monotonic()
        try:
            run_trial(plan, trial, number, folder, run_file, progress, device)
        except KeyboardInterrupt:
            run_file.note(number, status=INCOMPLETE, error="interrupted")
            progress.say(f"interrupted during {trial.name}; what was measured is kept")
            return False
        except VlaEdgeError as error:
            run_file.note(number, status=FAILED, error=str(error))
            if number == 0:
                raise
            progress.say(f"error: {trial.name}: {error}")
            continue
        run_file.note(number, status=COMPLETE)
        progress.learn(time.monotonic() - began_s)
    return True


def run_trial(
    plan: Plan,
    trial: Trial,
    number: int,
    folder: Path,
    run_file: RunFile,
    progress: Progress,
    device: DeviceMemory,
) -> None:
    """Raises ``VlaEdgeError`` where a process fails, in the words of its log."""
    own = (folder / trial.folder).absolute()
    own.mkdir(parents=True)
    write_parameters(own / PARAMETER_FILE, plan.values(trial, str(own / RECORDING)))
    run_file.note(number, device_mb_before=device.used_mb())
    load = cpu_times()
    processes = TrialProcesses(commands(plan, trial, own), own)
    began_s = time.monotonic()
    sampler = MemorySampler(own, processes.pids, device)
    sampler.start()
    try:
        first_picture_s = None
        while not (codes := processes.ended()):
            state = read_state(own)
            progress.show(number, trial, state)
            passed_s = time.monotonic() - began_s
            if first_picture_s is None and state["elapsed_s"] > 0:
                first_picture_s = round(passed_s - state["elapsed_s"], 3)
                run_file.note(number, first_picture_s=first_picture_s)
            limit_s = LONGEST_START_S if state["phase"] != RUNNING else LONGEST_START_S + plan.trial_s
            if passed_s > limit_s or state["elapsed_s"] > plan.trial_s + LONGEST_END_S:
                raise VlaEdgeError(f"the trial must end within {passed_s:.0f} s, it was {state['phase']}")
            time.sleep(POLL_S)
        _judge(codes, processes, own)
    finally:
        sampler.stop()
        processes.stop()
        run_file.note(number, other_cores=round(other_cores(load, cpu_times()), 3))


def _judge(codes: dict[str, int], processes: TrialProcesses, folder: Path) -> None:
    """After the first process has ended: by itself and in time, or not."""
    failed = [name for name in (CAMERA, REASONER) if codes.get(name)]
    if failed:
        raise VlaEdgeError(f"the {failed[0]} failed: {processes.last_words(failed[0])}")
    if REASONER in codes and read_state(folder)["phase"] == DONE:
        return
    name = next(iter(codes))
    raise VlaEdgeError(f"the {name} ended before its time: {processes.last_words(name)}")
