# SPDX-License-Identifier: Apache-2.0
"""Real-time priority for the threads that must answer a period, where the machine allows it."""

from __future__ import annotations

import os


def take_realtime_priority(priority: int) -> str:
    """Put the calling thread under SCHED_FIFO with ``priority`` 1 to 99; 0 leaves it as it is.

    Returns why it could not be done, or an empty text. Needs root, CAP_SYS_NICE or an ``rtprio`` limit.
    """
    if priority == 0:
        return ""
    try:
        # 0 is the calling thread on Linux, not the process.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(priority))
    except OSError as error:
        return f"timing.realtime_priority {priority} was not granted: {error}; see 'ulimit -r'"
    return ""
