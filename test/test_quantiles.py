# SPDX-License-Identifier: Apache-2.0
"""The rule for quantiles against NumPy's of the same rule."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.quantiles import quantile


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=300), st.floats(0, 1))
def test_a_quantile_is_a_sample_and_numpys_higher_one(samples, share):
    found = quantile(sorted(samples), share)
    assert found in samples
    assert found == quantile(np.sort(samples), share)
    assert sum(value <= found for value in samples) > share * (len(samples) - 1) - 1e-9


@pytest.mark.parametrize("count", [1, 2, 7, 100, 600])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.95, 0.99, 1.0])
def test_usual_quantiles_are_numpys(count, share):
    samples = np.random.default_rng(count).exponential(size=count)
    assert quantile(np.sort(samples), share) == np.quantile(samples, share, method="higher")
