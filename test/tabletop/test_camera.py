# SPDX-License-Identifier: Apache-2.0
"""The rasteriser: OpenCV's camera model as oracle for places, geometry for areas, statistics for noise."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.imaging import resize_rgb
from vla_edge_ros.tabletop import camera as camera_module
from vla_edge_ros.tabletop.arm import arm_points, joints_for
from vla_edge_ros.tabletop.camera import ARM_RGB, BALL_RGB, HAND_CENTRE_RGB, Camera
from vla_edge_ros.tabletop.scene import (
    BUTTON_RADIUS,
    COLOURS,
    GREY,
    GREY_RGB,
    HOVER_HEIGHT,
    LIT_RGB,
    WORK_AREA,
    SceneState,
    no_balls,
)

CAMERA = Camera()
CORNERS = [(x, y) for x in (-WORK_AREA[0], WORK_AREA[0]) for y in (-WORK_AREA[1], WORK_AREA[1])]
FAR_AWAY = (0.0, 0.12)


def state(objects, colours, *, hand=FAR_AWAY, lit=None, balls=None, gain=1.0) -> SceneState:
    balls = no_balls() if balls is None else np.array(balls, float)
    return SceneState(joints_for(hand), np.array(objects, float).reshape(-1, 2), colours, lit, balls, gain)


def at(picture, point, camera=CAMERA) -> tuple[int, ...]:
    column, row = camera.project(point).round().astype(int)
    return tuple(picture[row, column].tolist())


def count(picture, rgb) -> int:
    return int((picture == rgb).all(-1).sum())


def opencv_projection(points, width=256, height=128):
    """The same camera in OpenCV's terms, its axes found by cross products."""
    eye = np.array([0.0, 0.01 - 1.4 * np.cos(np.pi / 3), 1.4 * np.sin(np.pi / 3)])
    forward = (np.array([0.0, 0.01, 0.0]) - eye) / 1.4
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    rotation = np.stack([right, np.cross(forward, right), forward])
    focal = 1.4 * width / (2 / 3)
    matrix = np.array([[focal, 0, (width - 1) / 2], [0, focal, (height - 1) / 2], [0, 0, 1]])
    return cv2.projectPoints(points, cv2.Rodrigues(rotation)[0], -rotation @ eye, matrix, None)[0][:, 0]


def test_projection_is_that_of_opencv():
    points = np.random.default_rng(1).uniform([-0.3, -0.2, 0.0], [0.3, 0.3, 0.4], (200, 3))
    np.testing.assert_allclose(CAMERA.project(points), opencv_projection(points), atol=1e-9)
    small = Camera(128, 64)
    np.testing.assert_allclose(small.project(points), opencv_projection(points, 128, 64), atol=1e-9)


@given(column=st.floats(-0.5, 255.5), row=st.floats(-0.5, 127.5))
def test_on_table_undoes_project(column, row):
    xy = CAMERA.on_table([column, row])
    np.testing.assert_allclose(CAMERA.project([*xy, 0.0]), [column, row], atol=1e-9)


@given(
    x=st.floats(-WORK_AREA[0], WORK_AREA[0]),
    y=st.floats(-WORK_AREA[1], 0.0),
    name=st.sampled_from([*COLOURS, GREY]),
)
def test_a_button_is_where_it_projects_to_with_the_area_it_has(x, y, name):
    rgb = np.array({**COLOURS, GREY: GREY_RGB}[name])
    picture, empty = CAMERA.picture(state([(x, y)], (name,))), CAMERA.picture(state([], ()))
    centre = CAMERA.project([x, y, 0.0])
    assert at(picture, [x, y, 0.0]) == tuple(rgb)
    # How much of each pixel the button covers, by least squares over the three channels.
    change = rgb - empty.astype(float)
    cover = ((picture - empty.astype(float)) * change).sum(-1) / (change**2).sum(-1)
    rows, columns = np.mgrid[:128, :256]
    found = np.array([(cover * columns).sum(), (cover * rows).sum()]) / cover.sum()
    np.testing.assert_allclose(found, centre, atol=0.3)
    # Area by the derivative of the projection: what a small square on the table becomes.
    e = 1e-5
    along_x, along_y = ((CAMERA.project([x + e * i, y + e * (1 - i), 0.0]) - centre) / e for i in (1, 0))
    area = np.pi * BUTTON_RADIUS**2 * abs(along_x[0] * along_y[1] - along_x[1] * along_y[0])
    assert 1.0 < cover.sum() / area < 1.15


@pytest.mark.parametrize("corner", CORNERS)
def test_a_button_is_wholly_in_view_and_seven_pixels_in_radius_for_the_model(corner):
    around = np.linspace(0, 2 * np.pi, 100)
    rim = np.stack([np.cos(around), np.sin(around), 0 * around], -1) * BUTTON_RADIUS + [*corner, 0.0]
    model = Camera(128, 64)
    pixels = model.project(rim)
    assert (pixels >= -0.5).all() and (pixels <= [127.5, 63.5]).all()
    assert np.ptp(pixels[:, 0]) / 2 == pytest.approx(7.0, abs=0.7)
    assert (np.abs(model.project([*corner, HOVER_HEIGHT]) - [63.5, 31.5]) < [64, 26]).all()  # and the hand


def test_the_lit_button_shines_and_no_other():
    objects = [(-0.2, -0.05), (0.0, -0.05), (0.2, -0.05)]
    for lit in range(3):
        picture = CAMERA.picture(state(objects, (GREY,) * 3, lit=lit))
        seen = [at(picture, [*xy, 0.0]) for xy in objects]
        assert seen == [LIT_RGB if index == lit else GREY_RGB for index in range(3)]


def test_hand_and_arm_hide_a_button():
    button = (0.05, 0.0)
    bare = count(CAMERA.picture(state([button], ("red",))), COLOURS["red"])
    behind_hand = np.array(button) - [0.0, HOVER_HEIGHT / np.tan(np.pi / 3)]
    picture = CAMERA.picture(state([button], ("red",), hand=behind_hand))
    assert at(picture, [*button, 0.0]) == HAND_CENTRE_RGB
    assert count(picture, COLOURS["red"]) < 0.45 * bare
    # The button's centre behind the middle of the forearm.
    joints = joints_for([0.1, -0.1])
    elbow, hand = arm_points(joints)[2:]
    middle = 0.75 * hand + 0.25 * elbow
    hidden = CAMERA.on_table(CAMERA.project(middle))
    picture = CAMERA.picture(state([hidden], ("green",), hand=(0.1, -0.1)))
    assert at(picture, [*hidden, 0.0]) == ARM_RGB


def test_a_ball_hides_a_button_and_the_hand_a_ball():
    ball = [0.1, -0.05, 0.028, 0.028]
    picture = CAMERA.picture(state([(0.1, -0.05)], ("blue",), balls=[ball]))
    assert at(picture, ball[:3]) == BALL_RGB
    over = CAMERA.picture(state([], (), balls=[ball], hand=(0.1, -0.05 - 0.032 / np.tan(np.pi / 3))))
    assert at(over, ball[:3]) == HAND_CENTRE_RGB


def test_the_nearer_ball_hides_the_farther_one_in_any_order(monkeypatch):
    order = []
    monkeypatch.setattr(camera_module, "_disc", lambda _, centre, *rest: order.append(centre[1]))
    near, far = [0.0, -0.1, 0.02, 0.02], [0.0, 0.1, 0.02, 0.02]
    for balls in ([near, far], [far, near]):
        order.clear()
        CAMERA.picture(state([], (), balls=balls))
        assert order[0] < order[1]  # rows: the upper one first


def test_the_hand_is_drawn_where_the_pose_puts_it():
    picture = CAMERA.picture(state([], (), hand=(-0.15, -0.07)))
    row, column = np.argwhere((picture == HAND_CENTRE_RGB).all(-1)).mean(0)
    np.testing.assert_allclose([column, row], CAMERA.project([-0.15, -0.07, HOVER_HEIGHT]), atol=0.5)


def test_every_patch_of_the_empty_table_has_a_colour_of_its_own():
    model = resize_rgb(CAMERA._table, 128, 64).astype(float)
    patches = model.reshape(4, 16, 8, 16, 3).mean((1, 3)).reshape(32, 3)
    apart = np.linalg.norm(patches[:, None] - patches, axis=-1) + 99 * np.eye(32)
    assert apart.min() > 8.0  # grey levels; the noise of a patch's mean is 2 / 16
    assert (np.diff(patches.reshape(4, 8, 3)[..., 0], axis=1) > 0).all()  # red grows to the right
    assert (np.diff(patches.reshape(4, 8, 3)[..., 1], axis=0) > 0).all()  # green towards the camera


def test_noise_has_its_sigma_also_in_the_model_s_picture():
    scene = state([(0.1, 0.0)], ("red",))
    clean, rng = CAMERA.picture(scene), np.random.default_rng(5)
    noisy = [CAMERA.picture(scene, rng) for _ in range(4)]
    assert not np.array_equal(noisy[0], noisy[1])
    inner = (clean > 30).all(-1) & (clean < 225).all(-1)
    for picture in noisy:
        difference = (picture.astype(int) - clean)[inner]
        assert difference.std() == pytest.approx(4.0, abs=0.1) and abs(difference.mean()) < 0.1
        small = (resize_rgb(picture, 128, 64).astype(int) - resize_rgb(clean, 128, 64))[inner[::2, ::2]]
        assert small.std() == pytest.approx(2.0, abs=0.15)


def test_noise_saturates_like_a_sensor(monkeypatch):
    rng_state = np.random.default_rng(7)
    scene = state([(-0.1, 0.0)], ("yellow",), gain=1.6)
    clean = CAMERA.picture(scene).astype(int)
    offset = int(np.random.default_rng(7).integers(256 * 128))
    row, column = divmod(offset, 256)
    more, less = (
        t[row : row + 128, column : column + 256].astype(int) for t in camera_module._noise_tables(128, 256)
    )
    np.testing.assert_array_equal(CAMERA.picture(scene, rng_state), np.clip(clean + more - less, 0, 255))
    assert (clean == 255).any() and (clean == 0).any()


def test_gain_brightens_everything():
    scene, bright = state([(0.1, 0.0)], ("red",)), state([(0.1, 0.0)], ("red",), gain=1.15)
    expected = np.clip(CAMERA.picture(scene) * 1.15, 0, 255)
    assert np.abs(CAMERA.picture(bright) - expected).max() <= 0.5 + 1e-4


def test_pictures_depend_on_state_and_generator_only():
    scene = state([(0.1, 0.0)], ("red",), balls=[[0.0, 0.0, 0.02, 0.02]], gain=0.9)
    first = CAMERA.picture(scene, np.random.default_rng(3))
    assert first.dtype == np.uint8 and first.shape == (128, 256, 3) and first.flags.c_contiguous
    np.testing.assert_array_equal(first, Camera().picture(scene, np.random.default_rng(3)))


def test_an_empty_picture_is_refused():
    with pytest.raises(ValueError, match="at least 1x1 pixels, got 0x128"):
        Camera(width=0)
