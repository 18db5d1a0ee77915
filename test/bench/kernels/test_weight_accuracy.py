# SPDX-License-Identifier: Apache-2.0
"""What integer weights cost is what the format costs: the kernels add nothing to it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("cupy")
pytest.importorskip("transformers", reason="the reference is Hugging Face transformers")
torch = pytest.importorskip("torch")

from vla_edge_ros.bench.kernels import huggingface_reference as reference  # noqa: E402
from vla_edge_ros.bench.kernels.outlier_weights import OutlierWeights  # noqa: E402
from vla_edge_ros.bench.kernels.weight_accuracy import (  # noqa: E402
    OUTLIERS,
    RANDOM_1_5B,
    compare,
    format_rows,
    kv_rows,
)
from vla_edge_ros.model.kept_kv import kept_kv  # noqa: E402
from vla_edge_ros.model.quantise import as_kept  # noqa: E402
from vla_edge_ros.model.random_weights import RandomWeights  # noqa: E402

SMALL = replace(OUTLIERS, hidden_size=192, intermediate_size=172, num_hidden_layers=1, vocab_size=300)


@pytest.mark.parametrize("kept_as", ["bf16", "int8", "int4"])
def test_the_reference_model_holds_the_twins_values(kept_as):
    weights = OutlierWeights(SMALL, 0)
    model = reference.empty_model(SMALL, "cpu")
    for name, parameter in model.named_parameters():
        parameter.copy_(torch.from_numpy(weights.tensor(name)))
    reference.quantise_model(model, kept_as)
    kept = as_kept(weights, kept_as)
    for name, parameter in model.named_parameters():
        np.testing.assert_array_equal(parameter.numpy(), kept.tensor(name), err_msg=name)


def test_a_comparison_with_itself_finds_nothing():
    rng = np.random.default_rng(0)
    hidden, logits = rng.standard_normal((5, 8)), rng.standard_normal((3, 16))
    found = compare(hidden, logits, hidden, logits)
    assert found["relative_error"] == found["most_difference"] == found["most_given_up"] == 0
    assert found["least_cosine"] == pytest.approx(1) and found["top_1_agreement"] == 1
    assert found["median_margin"] > 0


@pytest.mark.gpu
@pytest.mark.parametrize("kept_as", ["int8", "int4"])
@pytest.mark.parametrize("name", ["random", "outliers"])
def test_the_kernels_add_nothing_to_what_the_format_costs(name, kept_as):
    weights = {"random": RandomWeights(RANDOM_1_5B, 3), "outliers": OutlierWeights(OUTLIERS, 3)}[name]
    ours, simple, added = format_rows(name, weights, kept_as, chunks=4)
    print(ours, simple, added, sep="\n")
    # Two independent errors add in squares: a quarter more beside the format's own is 3 % of it.
    assert added["relative_error"] < 0.25 * simple["relative_error"]
    assert ours["relative_error"] < 1.05 * simple["relative_error"]
    assert added["most_given_up"] < 0.5 * added["median_margin"], "no more than a near tie"


@pytest.mark.parametrize("rule", [kept_kv, reference.largest_by_127])
def test_the_reference_keeps_keys_and_values_by_a_rule(rule):
    model = reference.empty_model(SMALL, "cpu")
    rng = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.copy_(torch.from_numpy(0.1 * rng.standard_normal(parameter.shape).astype(np.float32)))
    kept = []

    def keep(values):
        kept.append(rule(values))
        return kept[-1]

    ids = torch.arange(10)[None]
    with torch.no_grad():
        plain = model(ids).logits
        with reference.kept_keys_and_values(model, keep):
            changed = model(ids).logits
        again = model(ids).logits
    assert len(kept) == 2 * SMALL.num_hidden_layers and all(each.shape[-1] == SMALL.head_dim for each in kept)
    assert torch.equal(again, plain) and not torch.equal(changed, plain)
    assert (changed - plain).norm() < 0.05 * plain.norm()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["random", "outliers"])
def test_the_kernels_add_nothing_to_what_int8_keys_and_values_cost(name):
    weights = {"random": RandomWeights(RANDOM_1_5B, 3), "outliers": OutlierWeights(OUTLIERS, 3)}[name]
    ours, same_rule, usual = kv_rows(name, weights, chunks=4)
    print(ours, same_rule, usual, sep="\n")
    assert ours["relative_error"] < 1.1 * same_rule["relative_error"]
    assert same_rule["relative_error"] < 1.5 * usual["relative_error"]
