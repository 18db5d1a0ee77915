# SPDX-License-Identifier: Apache-2.0
"""The engine's promises to the scheduler: the protocol, the pages it may touch, and what freed pages hold."""

import numpy as np
import pytest

from vla_edge_ros.config import ActionConfig, CacheConfig, EngineConfig, ModelSource, PromptConfig, VlaConfig
from vla_edge_ros.engines.load import load_engine
from vla_edge_ros.engines.numpy_engine import NumpyEngine
from vla_edge_ros.errors import EngineError
from vla_edge_ros.model.decoder_config import TINY
from vla_edge_ros.model.random_weights import RandomWeights
from vla_edge_ros.types import CacheView

CACHE = CacheConfig(capacity_slots=512, eviction="fifo", protect_latest=1)
PROMPT = np.array([5, 6, 7, 8, 9], np.int64)
ACTION_PAGE = 2


def config(**sections):
    base = {"model": ModelSource(preset="tiny"), "engine": EngineConfig(name="numpy"), "cache": CACHE}
    return VlaConfig(**{**base, **sections})


def make_engine(**sections):
    engine = load_engine(config(**sections))
    engine.load()
    return engine


def view(*frame_pages, prompt=(0, 5)):
    pages, fills = [prompt[0], *frame_pages], [prompt[1], *[32] * len(frame_pages)]
    return CacheView(np.array(pages, np.int32), np.array(fills, np.int32), ACTION_PAGE)


def picture(seed):
    return np.random.default_rng(seed).integers(0, 256, (64, 128, 3), dtype=np.uint8)


def never(step_ms):
    return False


def run_chunk(engine, chunk_view, seed, count=8):
    engine.embed_frame(picture(seed))
    engine.prefill(chunk_view)
    prefill_hidden = engine.hidden
    decoded = engine.decode(chunk_view, count, never)
    return prefill_hidden, engine.hidden, decoded.tokens


def test_chunk_gives_one_token_a_dimension_and_one_time_a_step():
    engine = make_engine()
    engine.write_prompt(PROMPT, (0,))
    vision = engine.embed_frame(picture(0))
    assert vision.embedding.shape == (64,) and vision.embedding.dtype == np.float32
    assert vision.vision_ms > 0 and engine.prefill(view(3)) > 0
    chunk_view = view(3)
    engine.embed_frame(picture(0))
    engine.prefill(chunk_view)
    decoded = engine.decode(chunk_view, 8, never)
    assert len(decoded.tokens) == 8 and len(decoded.step_ms) == 7 and not decoded.stopped
    assert all(TINY.vocab_size - 256 <= token < TINY.vocab_size for token in decoded.tokens)


def test_vision_embedding_is_the_mean_token():
    engine = make_engine()
    assert np.array_equal(engine.embed_frame(picture(1)).embedding, engine._vision.mean(axis=0))


@pytest.mark.parametrize("stop_before", range(7))
def test_decode_stops_where_asked_and_keeps_the_tokens_so_far(stop_before):
    engine = make_engine()
    engine.write_prompt(PROMPT, (0,))
    chunk_view = view(3)
    _, _, whole = run_chunk(engine, chunk_view, 0)
    asked = []

    def should_stop(step_ms):
        asked.append(len(step_ms))
        return len(step_ms) == stop_before

    decoded = engine.decode(chunk_view, 8, should_stop)
    assert decoded.stopped and asked == list(range(stop_before + 1))
    assert decoded.tokens == whole[: stop_before + 1] and len(decoded.step_ms) == stop_before


def test_same_chunk_gives_the_same_bits():
    first, second = make_engine(), make_engine()
    for engine in (first, second):
        engine.write_prompt(PROMPT, (0,))
        run_chunk(engine, view(3), 0)
    for a, b in zip(run_chunk(first, view(3, 4), 1), run_chunk(second, view(3, 4), 1), strict=True):
        assert np.array_equal(a, b)


def test_only_the_frame_page_and_the_action_page_are_written():
    engine = make_engine()
    engine.write_prompt(PROMPT, (0,))
    run_chunk(engine, view(3), 0)
    before = engine.decoder.kv.copy()
    run_chunk(engine, view(3, 7), 1)
    changed = {int(page) for page in np.argwhere(engine.decoder.kv != before)[:, 1]}
    assert changed == {7, ACTION_PAGE}
    assert np.array_equal(engine.decoder.kv[:, ACTION_PAGE, :, :, 7:], before[:, ACTION_PAGE, :, :, 7:])


def test_result_does_not_depend_on_which_physical_pages_hold_the_frames():
    results = []
    for pages in ((3, 4, 5), (9, 3, 6)):
        engine = make_engine()
        engine.write_prompt(PROMPT, (0,))
        for index in range(3):
            result = run_chunk(engine, view(*pages[: index + 1]), index)
        results.append(result)
    for a, b in zip(*results, strict=True):
        assert np.array_equal(a, b)


def test_freed_pages_and_slots_past_a_fill_never_reach_a_result():
    clean, poisoned = make_engine(), make_engine()
    poisoned.decoder.kv[:] = np.nan
    poisoned.decoder.visible_keys[:] = np.nan
    poisoned.decoder.visible_values[:] = np.nan
    for engine in (clean, poisoned):
        engine.write_prompt(PROMPT, (0,))
        run_chunk(engine, view(3), 0)
        run_chunk(engine, view(3, 4), 1)
    poisoned.decoder.kv[:, 3] = np.nan  # evicted: no later view names it
    for a, b in zip(run_chunk(clean, view(4, 5), 2), run_chunk(poisoned, view(4, 5), 2), strict=True):
        assert np.array_equal(a, b)


def test_poison_in_a_visible_slot_is_an_engine_error_and_the_next_chunk_recovers():
    engine = make_engine()
    engine.write_prompt(PROMPT, (0,))
    expected = run_chunk(engine, view(3), 0)
    engine.decoder.kv[0, 4] = np.nan
    engine.embed_frame(picture(1))
    with pytest.raises(EngineError, match="finite"):
        engine.prefill(view(4, 5))
    for a, b in zip(expected, run_chunk(engine, view(3), 0), strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("head", ["action", "full_vocabulary"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_one_logit_that_is_not_finite_is_an_engine_error_in_prefill_and_in_each_step(head, value):
    """Its hidden states are finite: nothing else shows it."""
    engine = make_engine(action=ActionConfig(head=head))
    engine.write_prompt(PROMPT, (0,))
    *_, whole = run_chunk(engine, view(3), 0)
    sound, broken = engine._head, engine._head.copy()
    broken[17, 5] = value
    engine._head = broken
    chunk_view = view(3)
    engine.embed_frame(picture(0))
    with pytest.raises(EngineError, match="expected finite logits"):
        engine.prefill(chunk_view)
    for step in range(7):
        engine._head = sound
        engine.embed_frame(picture(0))
        engine.prefill(chunk_view)

        def break_before(step_ms, step=step):
            engine._head = broken if len(step_ms) == step else sound
            return False

        with pytest.raises(EngineError, match="expected finite logits"):
            engine.decode(chunk_view, 8, break_before)
    engine._head = sound
    assert run_chunk(engine, view(3), 0)[-1] == whole


def test_decode_after_a_failed_prefill_is_refused():
    engine = make_engine()
    engine.write_prompt(PROMPT, (0,))
    engine.decoder.kv[0, 0, :, :, 0] = np.inf
    chunk_view = view(3)
    engine.embed_frame(picture(0))
    with pytest.raises(EngineError):
        engine.prefill(chunk_view)
    with pytest.raises(EngineError, match="view"):
        engine.decode(chunk_view, 8, never)


def test_prompt_over_two_pages_equals_the_same_tokens_in_one_larger_page():
    ids = np.arange(40, dtype=np.int64)
    engine = make_engine()
    engine.write_prompt(ids, (0, 1))
    large = make_engine(cache=CacheConfig(capacity_slots=1024, page_slots=64, protect_latest=1))
    large.write_prompt(ids, (0,))
    joined = np.concatenate([engine.decoder.kv[:, 0], engine.decoder.kv[:, 1][..., :8, :]], axis=3)
    np.testing.assert_allclose(joined, large.decoder.kv[:, 0, ..., :40, :], atol=1e-5)
    np.testing.assert_allclose(engine.hidden, large.hidden[32:], atol=1e-5)


def test_frame_after_a_long_run_equals_the_frame_in_a_fresh_engine():
    """Positions are ranks, so age leaves no trace: same prompt and pictures, whatever came before."""
    worn, fresh = make_engine(), make_engine()
    worn.write_prompt(PROMPT, (0,))
    for index in range(60):
        run_chunk(worn, view(3 + index % 5), 100 + index)
    fresh.write_prompt(PROMPT, (0,))
    for a, b in zip(run_chunk(worn, view(4), 0), run_chunk(fresh, view(4), 0), strict=True):
        assert np.array_equal(a, b)


def test_full_vocabulary_head_agrees_with_the_action_head_on_the_action_rows():
    restricted, full = make_engine(), make_engine(action=ActionConfig(head="full_vocabulary"))
    for engine in (restricted, full):
        engine.write_prompt(PROMPT, (0,))
        engine.embed_frame(picture(0))
        engine.prefill(view(3))
    assert full.logits().shape == (32, 512) and restricted.logits().shape == (32, 256)
    np.testing.assert_allclose(full.logits()[:, 256:], restricted.logits(), atol=1e-5)


def test_action_head_of_a_padded_vocabulary_takes_the_rows_that_end_at_its_last_id():
    restricted = make_engine(action=ActionConfig(bins=64, last_token_id=480))
    full = make_engine(action=ActionConfig(head="full_vocabulary"))
    for engine in (restricted, full):
        engine.write_prompt(PROMPT, (0,))
        engine.embed_frame(picture(0))
        engine.prefill(view(3))
    np.testing.assert_allclose(full.logits()[:, 417:481], restricted.logits(), atol=1e-5)
    assert all(417 <= token <= 480 for token in restricted.decode(restricted._view, 8, never).tokens)


def test_cache_full_to_the_last_slot_is_computed():
    engine = make_engine()
    frames = [page for page in range(16) if page not in (0, 1, ACTION_PAGE)]
    engine.write_prompt(np.arange(64), (0, 1))
    full = CacheView(np.array([0, 1, *frames], np.int32), np.full(15, 32, np.int32), ACTION_PAGE)
    engine.embed_frame(picture(0))
    engine.prefill(full)
    assert len(engine.decode(full, 32, never).tokens) == 32


@pytest.mark.parametrize(
    "pixels", [np.zeros((64, 128), np.uint8), np.zeros((64, 128, 3)), np.zeros((128, 64, 3), np.uint8)]
)
def test_wrong_pixels_are_refused_with_expected_and_got(pixels):
    with pytest.raises(EngineError, match=r"expected uint8 pixels \(64, 128, 3\), got"):
        make_engine().embed_frame(pixels)


def test_stages_out_of_order_are_refused():
    engine = make_engine()
    with pytest.raises(EngineError, match="embed_frame"):
        engine.prefill(view(3))
    with pytest.raises(EngineError, match="view"):
        engine.decode(view(3), 8, never)
    with pytest.raises(EngineError, match="prompt tokens"):
        engine.write_prompt(np.arange(33), (0,))


def test_engine_is_unusable_before_load_and_after_close():
    engine = load_engine(config())
    with pytest.raises(EngineError, match="load"):
        engine.embed_frame(picture(0))
    engine.load()
    engine.close()
    engine.close()
    with pytest.raises(EngineError, match="load"):
        engine.memory()


def test_memory_report_adds_up_to_what_is_held():
    engine = make_engine()
    report = engine.memory()
    assert report.parts["kv_cache"] == 2 * 16 * 2 * 2 * 32 * 16 * 4
    assert report.parts["embedding"] == 2 * 256 * 64 * 4  # the head is one of its own
    assert report.total_bytes == sum(report.parts.values()) > 0


def test_engine_takes_any_weights_of_the_protocol():
    engine = NumpyEngine(config(prompt=PromptConfig(max_pages=1)), RandomWeights(TINY, seed=3))
    engine.load()
    engine.write_prompt(PROMPT, (0,))
    assert np.isfinite(engine.hidden).all()


def test_the_tiny_presets_actions_follow_the_picture_and_differ_by_dimension(data_dir):
    """What the demo publishes is an answer to its camera, not a constant."""
    from vla_edge_ros.imaging import resize_rgb
    from vla_edge_ros.replay.open_source import open_source

    engine = make_engine()
    engine.write_prompt(PROMPT, (0,))
    answers = set()
    for frame in open_source(str(data_dir / "clips" / "bridge_blueberry_spoon.mp4")):
        engine.embed_frame(resize_rgb(frame.pixels, 128, 64))
        chunk_view = view(3)
        engine.prefill(chunk_view)
        answers.add(engine.decode(chunk_view, 8, never).tokens)
    assert len(answers) >= 5
    assert all(len(set(tokens)) >= 3 for tokens in answers)
