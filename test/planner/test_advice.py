# SPDX-License-Identifier: Apache-2.0
"""The sentence names what is wrong, and a remedy that is one: each is tried on boards made for the case."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vla_edge_ros.planner.advice import Verdict, find_remedy, hertz, sentence, verdict
from vla_edge_ros.planner.boards import find_board
from vla_edge_ros.planner.estimate import estimate, plan_config
from vla_edge_ros.planner.models import SIZES

MODEL = SIZES["qwen2.5-coder-1.5b"]
MEASURED = find_board("h200-sxm")


def made(board=MEASURED, model=MODEL, **chosen):
    return estimate(board, model, plan_config(**chosen))


def between(first, second) -> float:
    """A period that the second one's chunks fit into, and the first one's do not."""
    assert second.period.slow < first.period.slow
    return (first.period.slow + second.period.slow) / 2


def test_what_fits_says_so_with_the_shortest_period_and_its_rate():
    said = sentence(made(), 33.0)
    assert said == (
        "Fits: a chunk takes 8.0 ms on H200 SXM 141GB, so a period of 33 ms is enough; the shortest is "
        "12.4 ms (80 Hz)."
    )


def test_int8_is_named_where_int8_is_enough():
    wide = made()
    period_ms = between(wide, made(weights="int8"))
    remedy = find_remedy(wide, period_ms)
    assert remedy.words == "int8 weights" and remedy.verdict is Verdict.FITS
    said = sentence(wide, period_ms)
    assert said.startswith("Does not fit into ") and "with int8 weights it would" in said
    assert "and a period of 13 ms or more would" in said


def test_int4_is_named_where_int8_is_not_enough():
    assert find_remedy(made(), between(made(weights="int8"), made(weights="int4"))).words == "int4 weights"


def test_fewer_slots_are_named_where_the_weights_cannot_shrink():
    full = made(weights="int4")
    period_ms = between(full, made(weights="int4", slots=2048))
    assert find_remedy(full, period_ms).words == "2,048 slots"
    period_ms = between(made(weights="int4", slots=2048), made(weights="int4", slots=1024))
    assert find_remedy(full, period_ms).words == "1,024 slots"


def test_parallel_decoding_is_named_where_no_smaller_step_helps():
    full = made(weights="int4")
    period_ms = between(made(weights="int4", slots=1024), made(weights="int4", decoding="parallel"))
    assert find_remedy(full, period_ms).words == "parallel decoding (a model trained for it)"
    assert "with parallel decoding (a model trained for it) it would" in sentence(full, period_ms)


def test_nothing_is_promised_where_nothing_helps():
    fastest = made(weights="int4", decoding="parallel", slots=1024)
    period_ms = fastest.period.slow * 0.9
    assert find_remedy(made(), period_ms) is None
    assert "no setting mends that: it takes a period of 13 ms or more" in sentence(made(), period_ms)


def test_a_period_below_the_bytes_alone_says_how_many_they_are():
    said = sentence(made(find_board("orin-nano-super")), 33.0)
    assert "a chunk reads 21.92 GB, which alone takes 214.9 ms at the 102 GB/s of Jetson Orin Nano" in said


def test_a_board_that_was_never_measured_may_fit():
    board = find_board("rtx-4090")
    wide = made(board, weights="int8")
    period_ms = (wide.period.fast + wide.period.slow) / 2
    assert verdict(wide, period_ms) is Verdict.MAY_FIT
    said = sentence(wide, period_ms)
    assert said.startswith("May fit into ") and "which was never measured" in said
    assert verdict(wide, wide.period.slow) is Verdict.FITS
    assert verdict(wide, wide.period.fast * 0.99) is Verdict.TOO_SLOW


def test_where_only_a_chance_is_left_it_says_to_measure():
    board = find_board("orin-nano-super")
    only = made(board, weights="int4", decoding="parallel", slots=1024)
    said = sentence(only, (only.period.fast + only.period.slow) / 2)
    assert said.endswith("measure it there, or take a period of 85 ms or more.")


def with_room(gigabytes: float):
    return replace(MEASURED, memory_gb=gigabytes + MEASURED.reserved_gb)


def test_no_room_names_the_weights_that_have_room():
    needed, smaller = made().memory_bytes / 1e9, made(weights="int8").memory_bytes / 1e9
    tight = made(with_room((needed + smaller) / 2))
    assert verdict(tight, 33.0) is Verdict.NO_ROOM
    said = sentence(tight, 33.0)
    assert "Does not fit into the memory of" in said and f"{needed:.1f} GB are needed" in said
    assert "with int8 weights it would" in said


def test_no_room_names_fewer_slots_where_they_are_what_does_not_fit():
    full = made(weights="int4")
    tight = made(with_room(full.memory_bytes / 1e9 - 0.01), weights="int4")
    assert find_remedy(tight, 33.0).words == "2,048 slots"


def test_room_without_time_is_said_with_the_period():
    need = made(weights="int4").memory_bytes / 1e9
    tight = made(with_room(need + 0.01))
    said = sentence(tight, 1.0)
    assert "with int4 weights it has room" in said and "for a period of 11 ms or more" in said


def test_a_model_that_no_setting_makes_room_for():
    tight = made(with_room(0.5))
    assert find_remedy(tight, 33.0) is None
    assert "no setting makes room: it takes a smaller model or another board" in sentence(tight, 33.0)


@pytest.mark.parametrize("key", ["orin-nano-super", "rtx-4060", "h100-sxm"])
@pytest.mark.parametrize("model", ["qwen2.5-coder-0.5b", "qwen2.5-coder-7b"])
def test_a_remedy_is_one_everywhere(key, model):
    """What is named changes the verdict for the better, and the sentence is one line that ends."""
    board = find_board(key)
    order = [Verdict.NO_ROOM, Verdict.TOO_SLOW, Verdict.MAY_FIT, Verdict.FITS]
    for weights in ("bf16", "int4"):
        before = made(board, SIZES[model], weights=weights)
        for period_ms in (10.0, 100.0):
            said = sentence(before, period_ms)
            assert "\n" not in said and said.endswith(".")
            judged = verdict(before, period_ms)
            remedy = find_remedy(before, period_ms)
            if judged is not Verdict.FITS and remedy is not None:
                assert remedy.made.memory_fits and verdict(remedy.made, period_ms) is remedy.verdict
                assert order.index(remedy.verdict) >= order.index(judged)
            longer = before.period.slow
            assert not before.memory_fits or verdict(before, longer) is Verdict.FITS


def test_a_rate_has_the_digits_that_it_has():
    assert hertz(12.4) == "81 Hz" and hertz(356) == "2.8 Hz" and hertz(33) == "30 Hz"
