# SPDX-License-Identifier: Apache-2.0
"""A node that was started by our launch files ends with its launch process, whatever ended that.

`ros2 launch` passes SIGINT on. SIGTERM or SIGKILL, from a supervisor or the kernel, end it alone, and its
nodes would go on driving with nobody left to stop them.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading

LAUNCH_PID = "VLA_EDGE_LAUNCH_PID"  # set by the launch files, for their own nodes only


def end_with_launch() -> None:
    """Where the environment names a launch process: this process gets SIGTERM once that is gone.

    Call it when SIGTERM is handled. Does nothing for a node that was started otherwise.
    """
    text = os.environ.pop(LAUNCH_PID, "")  # popped, since our own children have another parent
    if not text:
        return
    try:
        launch = os.pidfd_open(int(text))
    except ProcessLookupError:
        os.kill(os.getpid(), signal.SIGTERM)
        return
    except (OSError, ValueError) as error:  # an old kernel, or no number
        print(f"warning: cannot watch the launch process {text!r}: {error}", file=sys.stderr)
        return
    # Not PR_SET_PDEATHSIG: it fires when the parent's thread ends, and misses one behind a launch-prefix.
    threading.Thread(target=_end_after, args=(launch,), name="parent_watch", daemon=True).start()


def _end_after(process: int) -> None:
    """``process``: a pidfd, which becomes readable when its process has ended."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    poll.poll()
    os.kill(os.getpid(), signal.SIGTERM)
