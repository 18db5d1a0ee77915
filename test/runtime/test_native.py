# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import importlib
import sys

import pytest


def test_missing_extension_gives_one_error_that_says_how_to_build_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "_vla_edge_native", None)
    monkeypatch.delitem(sys.modules, "vla_edge_ros.runtime.native", raising=False)
    with pytest.raises(ImportError, match="_vla_edge_native cannot be imported .*build it with 'make"):
        importlib.import_module("vla_edge_ros.runtime.native")
