# SPDX-License-Identifier: Apache-2.0
"""The border at which the errors of what an engine stands on become ``EngineError``s.

One mechanism, around all methods of ``engines.base.Engine`` at once: a library may fail in any of them. A
broken invariant goes through untouched.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from vla_edge_ros.engines.base import Engine
from vla_edge_ros.errors import EngineError, VlaEdgeError

METHODS = ("load", "write_prompt", "embed_frame", "prefill", "decode", "memory", "close")
# Of Python and NumPy themselves. ArithmeticError: a host program may have told NumPy to raise.
HOST_FAILURES: tuple[type[Exception], ...] = (MemoryError, ArithmeticError, np.linalg.LinAlgError)

AnyEngine = TypeVar("AnyEngine", bound=Engine)


def raises_engine_errors(
    *failures: type[Exception], explain: Callable[[AnyEngine, Exception], EngineError]
) -> Callable[[type[AnyEngine]], type[AnyEngine]]:
    """Decorate an engine's class: ``explain`` says what becomes of ``failures`` that a method lets out."""

    def decorate(engine: type[AnyEngine]) -> type[AnyEngine]:
        for name in METHODS:
            setattr(engine, name, _guarded(getattr(engine, name), failures, explain))
        return engine

    return decorate


def host_failure(engine: Engine, failure: Exception) -> EngineError:
    """What the machine itself refused, with the engine's name."""
    return EngineError(f"the {engine.name} engine failed: {one_line(failure)}")


def one_line(failure: BaseException) -> str:
    """``failure``'s text, with its class where that is not ours; libraries spread theirs over many lines."""
    text = " ".join(str(failure).split())
    if isinstance(failure, VlaEdgeError):
        return text
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__


def _guarded(
    method: Callable[..., Any],
    failures: tuple[type[Exception], ...],
    explain: Callable[[Any, Exception], EngineError],
) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(engine: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return method(engine, *args, **kwargs)
        except failures as failure:
            explained = explain(engine, failure)
            if explained is failure:
                raise
            raise explained from failure

    return call
