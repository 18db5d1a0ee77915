# SPDX-License-Identifier: Apache-2.0
"""Which engine a machine gets, and the reason, as the launch files and a user ask for it."""

from __future__ import annotations

from types import SimpleNamespace

from vla_edge_ros.engines import check
from vla_edge_ros.engines.load import LOGGER
from vla_edge_ros.errors import EngineError


def test_the_engine_is_the_first_line_and_the_reason_the_second(monkeypatch, capsys):
    def numpy_engine(config):
        LOGGER.warning("engine.name is auto: numpy, since %s", "NVRTC\nis missing")
        return SimpleNamespace(name="numpy")

    monkeypatch.setattr(check, "load_engine", numpy_engine)
    assert check.main([]) == 0
    assert capsys.readouterr().out == "numpy\nengine.name is auto: numpy, since NVRTC is missing\n"


def test_without_a_device_that_is_the_reason(monkeypatch):
    monkeypatch.setattr(check, "load_engine", lambda config: SimpleNamespace(name="numpy"))
    assert check.choose() == check.Choice("numpy", check.NO_DEVICE)


def test_a_device_that_works_needs_no_reason(monkeypatch):
    monkeypatch.setattr(check, "load_engine", lambda config: SimpleNamespace(name="cuda"))
    assert check.choose() == check.Choice("cuda")


def test_an_engine_that_refuses_is_none(monkeypatch):
    def refuse(config):
        raise EngineError("the kernels\ndo not load")

    monkeypatch.setattr(check, "load_engine", refuse)
    assert check.choose() == check.Choice("numpy", "the kernels do not load")


def test_this_machine_answers():
    choice = check.choose()
    assert choice.engine in ("cuda", "numpy") and bool(choice.reason) == (choice.engine == "numpy")
    assert not any(isinstance(handler, check._Said) for handler in LOGGER.handlers)
