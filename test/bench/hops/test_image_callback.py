# SPDX-License-Identifier: Apache-2.0
"""The image callback's benchmark runs what the callback runs, for each encoding it lists."""

import pytest

pytest.importorskip("_vla_edge_native", reason="the C++ extension is not built")

from vla_edge_ros.bench.hops.image_callback import ENCODINGS, measure  # noqa: E402


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("padding", [0, 64])
def test_a_row_has_times_that_add_up(encoding, padding):
    row = measure(encoding, 64, 48, padding, repeats=5)
    assert row["encoding"] == encoding and row["padding_bytes"] == padding
    assert 0 < row["callback_us_median"] <= row["callback_us_p99"] <= row["callback_us_max"]
    assert row["convert_us_median"] <= row["callback_us_max"]
