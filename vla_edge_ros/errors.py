# SPDX-License-Identifier: Apache-2.0
"""The exceptions a user can mend; a leaf module, so that every other one may import it.

Convention: expected events (refused, stale, late, no new frame) are values, see ``types.Outcome``. A
problem that the user can fix raises a child of ``VlaEdgeError`` whose text names what was expected and what
came. A broken invariant is an ``assert``, never used for input.
"""


def printable(text: str) -> str:
    """``text`` as messages and logs can carry it.

    An error may quote a file name that is not UTF-8: Python holds it as lone surrogates, which ROS refuses.
    """
    return text.encode("utf-8", "backslashreplace").decode()


class VlaEdgeError(Exception):
    """Base of every error that a user can fix."""


class ConfigError(VlaEdgeError):
    """A parameter has a value that cannot work; the text starts with the parameter's dotted name."""


class SourceError(VlaEdgeError):
    """A replay source is missing, empty, or holds no pictures; the text names it."""


class ImageError(VlaEdgeError):
    """An image message is malformed or in an encoding without a picture.

    ``reason`` is one short stable word (``"step"``, ``"encoding"``, ...) for counters by reason.
    """

    def __init__(self, reason: str, text: str):
        super().__init__(text)
        self.reason = reason


def drop_tracebacks(error: BaseException | None) -> None:
    """Let go of what the frames hold that ``error`` and its causes came through, whoever keeps it."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


class WeightsError(VlaEdgeError):
    """A checkpoint folder lacks a tensor, or one has the wrong shape or type."""


class EngineError(VlaEdgeError):
    """An engine could not be started or a forward pass failed; the cycle falls back."""


class EngineLostError(EngineError):
    """The engine cannot work again in this process, whatever is tried; the text says what to do."""


class KernelCompileError(EngineError):
    """NVRTC refused a kernel; the text holds file, line and the compiler's log."""


class InstructionError(VlaEdgeError):
    """An instruction does not fit the pinned prompt pages; the text holds the numbers."""
