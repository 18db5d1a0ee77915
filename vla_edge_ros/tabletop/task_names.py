# SPDX-License-Identifier: Apache-2.0
"""The names of the tasks. Apart from ``tasks.py``, so that a launch file can read them without NumPy."""

from __future__ import annotations

TASKS = ("point", "point_moving", "recall", "recall_last")


def is_file(task: str) -> bool:
    """Whether ``task`` is the path of a file with a task (``own_task.py``), and no name."""
    return task.endswith(".py")
