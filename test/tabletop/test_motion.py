# SPDX-License-Identifier: Apache-2.0
"""Buttons that move, balls that cross, and what the arm hides, against the camera's own pictures."""

from __future__ import annotations

import numpy as np

from vla_edge_ros.tabletop.arm import joints_for
from vla_edge_ros.tabletop.camera import Camera
from vla_edge_ros.tabletop.motion import BALL_EDGE, BUTTON_GAP, Ball, is_hidden, rolling, wandering
from vla_edge_ros.tabletop.scene import BUTTON_RADIUS, CONTROL_HZ, WORK_AREA, SceneState, no_balls
from vla_edge_ros.tabletop.tasks import draw


def test_moving_buttons_stay_in_the_area_apart_and_at_their_speed():
    for seed in range(20):
        path = draw("point_moving", seed, delay=200).path
        assert path.shape == (310, 3, 2)
        assert (np.abs(path) <= WORK_AREA).all()
        apart = np.linalg.norm(path[:, :, None] - path[:, None], axis=-1) + np.eye(3)
        assert apart.min() > 2 * BUTTON_RADIUS, seed
        speed = np.linalg.norm(np.diff(path, axis=0), axis=-1) * CONTROL_HZ
        assert speed.max() <= 0.12 + 1e-9 and np.median(speed) >= 0.06


def test_two_buttons_that_meet_turn_back_and_a_border_mirrors():
    places = np.array([[-0.1, 0.0], [0.1, 0.0]])
    path = wandering(places, np.array([[0.12, 0.0], [-0.12, 0.0]]), 300)
    between = path[:, 1, 0] - path[:, 0, 0]
    assert BUTTON_GAP - 0.008 <= between.min() < 0.1
    assert path[:, 0, 0].min() < -0.27 and path[:, 1, 0].max() > 0.27  # they went back to the borders
    np.testing.assert_allclose(path[:, 0], path[:, 1] * [-1, 1], atol=1e-12)


def test_a_ball_crosses_once_from_side_to_side():
    ball = Ball(start=10, x=BALL_EDGE, y=0.05, vx=-0.3, vy=0.03, radius=0.02)
    assert rolling((ball,), 9.5).shape == (0, 4)
    np.testing.assert_allclose(rolling((ball,), 10), [[BALL_EDGE, 0.05, 0.02, 0.02]])
    np.testing.assert_allclose(rolling((ball,), 25), [[BALL_EDGE - 0.15, 0.065, 0.02, 0.02]])
    last = 10 + round(ball.cycles)
    np.testing.assert_allclose(rolling((ball,), last - 1)[0, 0], -BALL_EDGE, atol=0.02)
    assert rolling((ball,), last + 1).shape == (0, 4)


def test_what_is_called_visible_is_wholly_visible():
    """The judgement by geometry against pictures: as many lit pixels with the arm as without it."""
    camera, rng = Camera(), np.random.default_rng(2)
    seen = {True: 0, False: 0}
    away = [joints_for([x, 0.12]) for x in (-0.28, 0.28)]

    def lit_pixels(joints, button):
        state = SceneState(joints, button, ("grey",), 0, no_balls())
        return int((camera.picture(state) == (255, 245, 170)).all(-1).sum())

    for _ in range(300):
        button = rng.uniform(np.negative(WORK_AREA), [WORK_AREA[0], 0.02], (1, 2))
        hand = rng.uniform(np.negative(WORK_AREA), WORK_AREA)
        hidden = bool(is_hidden(button, hand)[0])
        whole = lit_pixels(joints_for(hand), button) == lit_pixels(away[int(button[0, 0] < 0)], button)
        seen[hidden] += 1
        assert whole or hidden, (button, hand)
    assert min(seen.values()) > 30
