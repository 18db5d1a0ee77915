# SPDX-License-Identifier: Apache-2.0
"""Charts: what is drawn lies where its number says, inside the picture, whatever the numbers are."""

from __future__ import annotations

import base64
import io
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from vla_edge_ros.bench.run.charts import WIDTH, Axis, Bar, Range, bar_chart, range_chart, stacked_chart
from vla_edge_ros.bench.run.plots import plot, png_uri, strips

NUMBERS = st.floats(0, 1e6, allow_nan=False)
SVG = "{http://www.w3.org/2000/svg}"


def drawn(text: str, tag: str) -> list[dict[str, str]]:
    return [each.attrib for each in ElementTree.fromstring(text).iter(SVG + tag)]


def check_inside(text: str) -> None:
    root = ElementTree.fromstring(text)
    _, _, width, height = map(float, root.get("viewBox").split())
    for attributes in drawn(text, "rect") + drawn(text, "line"):
        for name, most in (("x", width), ("x1", width), ("x2", width), ("y", height), ("y1", height)):
            assert -1 <= float(attributes.get(name, 0)) <= most + 1
        assert float(attributes.get("width", 0)) >= 0
    assert "nan" not in text and "inf" not in text


@given(st.floats(-1e4, 1e4), st.floats(1e-3, 1e6))
def test_ticks_are_round_numbers_within(low, span):
    ticks = Axis(low, low + span, 0, 100).ticks()
    assert len(ticks) <= 14
    assert all(low - 1e-6 * span <= tick <= low + span * 1.000001 + 1e-9 for tick in ticks)


def test_bars_are_as_long_as_their_numbers():
    text = bar_chart([Bar("a", 2.0, "", 1.0, 3.0), Bar("b", 1.0, ""), Bar("c", 0.0, "")], "alt", " %", 4.0)
    widths = [float(bar["width"]) for bar in drawn(text, "rect")[1:]]
    assert widths == pytest.approx([(560 - 190) / 2, (560 - 190) / 4, 0.0], abs=0.1)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS), max_size=5))
def test_any_bars_stay_inside(values):
    check_inside(bar_chart([Bar("x", b, "", a, c) for a, b, c in map(sorted, values)], "alt", "", 1.0))


@given(st.lists(st.lists(NUMBERS, min_size=4, max_size=4), min_size=1, max_size=5), st.none() | NUMBERS)
def test_any_ranges_stay_inside(values, limit):
    names = ("p50", "p95", "p99", "max")
    ranges = [Range("x", dict(zip(names, sorted(v), strict=True)), i) for i, v in enumerate(values)]
    check_inside(range_chart(ranges, "alt", limit, "deadline"))


def test_an_outlier_becomes_an_arrow_and_does_not_press_the_rest_flat():
    text = range_chart(
        [Range("x", {"p50": 10, "p95": 12, "p99": 13, "max": 9000}, 0)], "alt", 33.0, "deadline"
    )
    assert "→ 9000 ms" in text and float(drawn(text, "rect")[1]["width"]) > 60


def test_parts_of_a_stack_lie_side_by_side():
    text = stacked_chart({"a": {"x": 0.1, "y": 0.2}, "b": {}}, "alt")
    first, second = drawn(text, "rect")[1:3]
    assert float(first["x"]) + float(first["width"]) == pytest.approx(float(second["x"]), abs=0.2)
    assert float(second["width"]) == pytest.approx(2 * float(first["width"]), abs=0.2)
    check_inside(stacked_chart({}, "alt"))


@given(st.lists(st.tuples(NUMBERS, NUMBERS), max_size=30), st.booleans(), st.booleans())
def test_any_points_are_drawn_inside(points, joined, diagonal):
    text = plot({"a": points}, "alt", ("x", "y"), joined=joined, diagonal=diagonal)
    check_inside(text)
    for pair in re.findall(r"(?:M|points=\"| )(-?[\d.]+),(-?[\d.]+)", text):
        assert 0 <= float(pair[0]) <= WIDTH and 0 <= float(pair[1]) <= 400


def test_text_from_outside_is_escaped():
    text = plot({"<b>&": [(0, 0)]}, '"<&', ("x", "y"), joined=True)
    assert ElementTree.fromstring(text)[0].text == '"<&' and "<b>" not in text


def test_pictures_come_back_as_they_were():
    picture = np.random.default_rng(0).integers(0, 256, (32, 64, 3), dtype=np.uint8)
    data = base64.b64decode(png_uri(picture).removeprefix("data:image/png;base64,"))
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(data))), picture)
    text = strips([("at 5 s", np.stack([picture] * 3), ["1", "2", "3"])], "alt")
    assert [image["href"] for image in drawn(text, "image")] == [png_uri(picture)] * 3
