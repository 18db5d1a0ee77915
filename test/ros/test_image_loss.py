# SPDX-License-Identifier: Apache-2.0
"""Loss by a publisher's numbers and by stamps, and the cameras that must not look like loss."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from vla_edge_ros.ros.image_loss import STANDSTILL_S, WINDOW_S, ImageLoss, Loss

PERIOD_S = 1 / 60
START_S = 1000.0


def numbered(number: int, publisher: bytes = b"camera") -> dict:
    return {"publication_sequence_number": number, "publisher_gid": {"data": publisher}}


def loss_of(
    sent_s, arrives, *, info=lambda number: {}, stamp_s=lambda sent_s: sent_s, publishers: int = 1
) -> Loss:
    """What is known after the images sent at ``sent_s``, of which those that ``arrives`` marks came."""
    loss, looked_s = ImageLoss(), START_S
    for number, (at_s, comes) in enumerate(zip(sent_s, arrives, strict=False), 1):
        while looked_s < at_s:
            loss.look(looked_s, publishers)
            looked_s += 0.1
        if comes:
            loss.note(round(stamp_s(at_s) * 1e9), info(number), at_s)
    return loss.look(at_s, publishers)


def grid(seconds: float = 12.0, period_s: float = PERIOD_S):
    return START_S + np.arange(round(seconds / period_s)) * period_s


def random_share(share: float, seed: int = 1):
    generator = np.random.default_rng(seed)
    return (generator.random() < share for _ in itertools.count())


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.9])
def test_by_numbers_the_share_that_did_not_arrive_is_exact(share):
    arrived = list(itertools.islice(random_share(share), 720))
    arrived[0] = arrived[-1] = True
    seen = loss_of(grid(), arrived, info=numbered)
    assert seen.basis == "numbers"
    # The window begins with an arrival and what was lost before it.
    in_window = sum(at_s >= START_S + 12 - PERIOD_S - WINDOW_S for at_s in grid())
    assert abs(seen.sent - in_window) <= 1 / share * 6
    assert seen.percent == pytest.approx(100 * (1 - share), abs=6)


def test_three_of_three_hundred_are_a_loss():
    """Too few for a rate, and no silence of a second needs to be among them."""
    arrived = [number % 100 == 0 for number in range(301)]
    seen = loss_of(grid(10.03, 1 / 30), arrived, info=numbered)
    assert (seen.sent, seen.lost) == (301, 297)


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8])
def test_by_stamps_a_60_hz_camera_that_arrives_in_part_shows_its_loss(share):
    """60 Hz that arrive at 18 Hz is the share of 0.3."""
    jitter = np.random.default_rng(2).normal(0, 0.0005, 2000)
    seen = loss_of(grid() + jitter[:720], random_share(share))
    assert seen.basis == "stamps"
    assert seen.percent == pytest.approx(100 * (1 - share), abs=8)


def test_by_stamps_a_loss_so_heavy_that_no_two_in_a_row_arrive_is_told_by_the_period_learnt_before():
    generator = np.random.default_rng(3)
    steps = generator.integers(2, 6, 200)
    heavy = np.concatenate([np.full(300, 1), steps])
    places = np.cumsum(heavy)
    loss, seen = ImageLoss(), Loss()
    for place in places:
        now_s = START_S + place * PERIOD_S
        loss.note(round(now_s * 1e9), {}, now_s)
        seen = loss.look(now_s, 1)
    window = steps[-(steps[::-1].cumsum() * PERIOD_S <= WINDOW_S).sum() :]
    assert seen.percent == pytest.approx(100 * (1 - window.size / window.sum()), abs=3)


NORMAL = np.random.default_rng(4)
HEALTHY = {
    "a steady camera": grid(),
    "jitter of a tenth": grid() + NORMAL.normal(0, 0.1 * PERIOD_S, 720),
    "jitter of a third": np.sort(grid() + NORMAL.normal(0, 0.33 * PERIOD_S, 720)),
    "stamps at random": START_S + np.cumsum(NORMAL.exponential(PERIOD_S, 720)),
    "bursts of two": np.sort(np.concatenate([grid(12, 1 / 30), grid(12, 1 / 30) + 0.0001])),
    "half the rate in the dark": START_S + np.cumsum([PERIOD_S] * 200 + [2 * PERIOD_S] * 200),
    "in and out of the dark": START_S + np.cumsum(([PERIOD_S] * 60 + [2 * PERIOD_S] * 60) * 5),
    "film of 24 on 60": START_S + np.cumsum([2 * PERIOD_S, 3 * PERIOD_S] * 150),
    "film of 25 on 30": START_S + np.cumsum(([1 / 30] * 4 + [2 / 30]) * 60),
    "film of 20 on 30": START_S + np.cumsum([1 / 30, 2 / 30] * 150),
    "pauses": START_S + np.cumsum(([PERIOD_S] * 100 + [3.0]) * 5),
    "one a second": grid(60.0, 1.0),
    "an exposure that drifts": START_S + np.cumsum(np.linspace(PERIOD_S, 2 * PERIOD_S, 500)),
    "a single image lost now and then": np.delete(grid(), np.arange(50, 720, 97)),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_by_stamps_a_healthy_camera_shows_no_loss(name):
    seen = loss_of(HEALTHY[name], itertools.repeat(True))
    assert not seen.percent >= 5, seen


@pytest.mark.parametrize("rate_hz", [15.0, 25.0, 60.0, 60.1])
@pytest.mark.parametrize("speed", [0.05, 1.0, 10.0])
@pytest.mark.parametrize("resolution_ns", [1, 1_000_000, 10_000_000])
def test_simulated_time_of_any_speed_and_resolution_is_no_loss(speed, resolution_ns, rate_hz):
    stamps_ns = (round(n * 1e9 / rate_hz) // resolution_ns * resolution_ns for n in itertools.count(1))
    sent_s = grid(12.0 / min(speed, 1.0), 1 / rate_hz / speed)
    seen = loss_of(sent_s, itertools.repeat(True), stamp_s=lambda _: next(stamps_ns) / 1e9)
    assert not seen.percent >= 5, seen


def test_a_clock_that_is_changed_or_set_back_is_no_loss():
    offsets = iter([0.0] * 200 + [1.7e9] * 200 + [5.0] * 200 + [-900.0] * 120)
    seen = loss_of(grid(), itertools.repeat(True), stamp_s=lambda sent_s: sent_s + next(offsets))
    assert seen.basis == "stamps" and not seen.lost


def test_stamps_of_zero_or_too_few_are_no_verdict():
    assert loss_of(grid(), itertools.repeat(True), stamp_s=lambda _: 0.0) == Loss()
    assert loss_of(grid(0.4), itertools.repeat(True)) == Loss()
    assert np.isnan(Loss().percent)


def test_a_camera_that_starts_again_or_comes_late_counts_from_its_own_first_number():
    info = itertools.chain(
        (numbered(n, b"first") for n in range(5000, 5300)), (numbered(n, b"second") for n in range(7, 427))
    )
    seen = loss_of(grid(), itertools.repeat(True), info=lambda _: next(info))
    assert seen.basis == "numbers" and not seen.lost


def test_without_a_publishers_identity_a_restart_is_no_loss_and_two_publishers_are_no_verdict():
    numbers = itertools.chain(range(5000, 5300), range(1, 421))
    info = ({"publication_sequence_number": number} for number in numbers)
    assert loss_of(grid(), itertools.repeat(True), info=lambda _: next(info)).lost == 0
    two = (n for pair in zip(range(100, 500), range(9000, 9400), strict=True) for n in pair)
    info = ({"publication_sequence_number": number} for number in two)
    assert loss_of(grid(), itertools.repeat(True), info=lambda _: next(info), publishers=2) == Loss()


def test_two_cameras_on_one_topic_are_each_counted_by_their_own_numbers():
    info = (numbered(n, name) for n in range(1, 400) for name in (b"left", b"right"))
    seen = loss_of(grid(), itertools.repeat(True), info=lambda _: next(info), publishers=2)
    assert seen.basis == "numbers" and not seen.lost


def test_images_that_overtake_each_other_are_no_loss():
    order = (n for pair in range(1, 700, 2) for n in (pair + 1, pair))
    seen = loss_of(grid(10), itertools.repeat(True), info=lambda _: numbered(next(order)))
    assert not seen.lost


def test_what_a_queue_of_one_dropped_while_the_executor_stood_still_is_no_loss():
    loss = ImageLoss()
    for number in range(1, 60):
        loss.note(0, numbered(number), START_S + number * PERIOD_S)
    later_s = START_S + 1 + 2 * STANDSTILL_S
    for number in range(120, 180):
        loss.note(0, numbered(number), later_s + (number - 120) * PERIOD_S)
    assert loss.look(later_s + 1, 1).lost == 0


def test_a_loss_is_forgotten_after_the_window():
    loss, now_s = ImageLoss(), START_S
    for number in [*range(1, 100), *range(150, 1000)]:
        now_s += PERIOD_S
        loss.note(0, numbered(number), now_s)
        if number == 200:
            assert loss.look(now_s, 1).lost == 50
    assert loss.look(now_s, 1).lost == 0
