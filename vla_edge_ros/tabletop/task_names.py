# SPDX-License-Identifier: Apache-2.0
"""The names of the tasks. Apart from ``tasks.py``, so that a launch file can read them without NumPy."""

TASKS = ("point", "point_moving", "recall", "recall_last")
