# SPDX-License-Identifier: Apache-2.0
"""Drafts change the number of passes and never a token: the bookkeeping by itself, then on the device."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vla_edge_ros.engines.cuda.plan.weight_format import TILE_ROWS
from vla_edge_ros.engines.cuda.run.speculative_decoding import (
    MOST_REJECTED_PASSES,
    SpeculativeTokens,
    passes_needed,
)
from vla_edge_ros.errors import EngineError
from vla_edge_ros.types import CacheView

ACTION_TOKENS = 8


def never_stop(_):
    return False


def greedy(prefix):
    """A language model of four words whose every choice depends on all words before it."""
    return sum((place + 3) * word * word for place, word in enumerate(prefix)) % 4


def plain(count):
    tokens = []
    while len(tokens) < count:
        tokens.append(greedy(tokens))
    return tokens


def one_pass(tokens, drafted):
    inputs = [*tokens, *drafted]
    return [greedy(inputs[: len(tokens) + row]) for row in range(len(drafted) + 1)]


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 12))
def test_any_draft_gives_the_tokens_of_plain_decoding(draft, count):
    run, passes, rejected_passes = SpeculativeTokens(draft), 0, 0
    while (before := len(run.accepted)) < count:
        drafted = list(run.draft_tokens(count))
        assert not drafted or rejected_passes < MOST_REJECTED_PASSES, (
            "a verification pass where plain steps are due"
        )
        run.accept(one_pass(run.accepted, drafted), drafted)
        assert before < len(run.accepted) <= count
        rejected_passes = rejected_passes + 1 if len(run.accepted) == before + 1 else 0
        passes += 1
    assert run.accepted == plain(count)
    assert passes == passes_needed(plain(count), draft) <= count


def test_verification_ends_after_two_rejected_passes_and_goes_on_where_a_token_was_accepted():
    truth = [5, 6, 7, 8, 9, 5, 6, 7]
    run = SpeculativeTokens([0, 0, 7, 8, 0, 5, 6, 7])
    drafted = [list(run.draft_tokens(8))]
    run.accept(truth, drafted[0])
    drafted.append(list(run.draft_tokens(8)))
    run.accept(truth[1:], drafted[1])
    drafted.append(list(run.draft_tokens(8)))
    assert drafted == [[0, 0, 7, 8, 0, 5, 6], [0, 7, 8, 0, 5, 6], []]

    run = SpeculativeTokens([0, 6, 7, 0, 0, 5, 6, 7])
    for _ in range(2):  # rejected, then two draft tokens are accepted
        run.accept(truth[len(run.accepted) :], run.draft_tokens(8))
    assert run.accepted == truth[:4] and list(run.draft_tokens(8)) == [0, 5, 6]


@pytest.mark.parametrize(
    ("draft", "passes"),
    [
        ([5, 6, 7, 8], 1),
        ([5, 6, 7, 0], 1),  # the last token is never an input
        ([0, 6, 7, 8], 2),
        ([5, 0, 7, 8], 2),
        ([5, 6, 0, 8], 2),
        ([0, 0, 0, 0], 4),
        ([0, 0, 7, 8], 4),  # the third draft token would be accepted, and is not tried
        ([], 4),
        ([5], 3),
    ],
)
def test_passes_are_one_and_one_more_for_each_rejected_token_that_is_used(draft, passes):
    assert passes_needed([5, 6, 7, 8], draft) == passes


def frame_of(rng, case):
    return rng.integers(0, 256, (case.config.frame.height, case.config.frame.width, 3), np.uint8)


def view_of(case, pages):
    return CacheView(np.array(pages, np.int32), np.full(len(pages), case.config.frame.tokens, np.int32), 0)


def run_plain(engine, pixels, view):
    """Tokens, each step's logits, and the bits of every key and value."""
    from vla_edge_ros.bench.kernels import inspection

    logits = []
    engine.embed_frame(pixels)
    engine.prefill(view)

    def keep_logits(_):
        logits.append(inspection.logits(engine))
        return False

    tokens = engine.decode(view, ACTION_TOKENS, keep_logits).tokens
    return tokens, [*logits, inspection.logits(engine)], kv_bits(engine)


def kv_bits(engine):
    return engine.buffers.array("kv_cache", np.uint16, (engine.buffers.parts["kv_cache"] // 2,)).get()


@pytest.mark.gpu
def test_an_accepted_draft_takes_one_pass_and_leaves_the_same_bits(engine, case, rng):
    """Logits of each token, and every bit of the cache: keys and values of the frame and of the action."""
    from vla_edge_ros.bench.kernels import inspection

    engine.write_prompt(np.arange(5), [1])
    for page in (6, 2):
        engine.embed_frame(frame_of(rng, case))
        engine.prefill(view_of(case, [page]))
    pixels, view = frame_of(rng, case), view_of(case, [6, 2, 5])
    tokens, logits, bits = run_plain(engine, pixels, view)

    engine.embed_frame(pixels)
    engine.prefill(view, tokens)
    got = inspection.draft_logits(engine)[:ACTION_TOKENS]
    decoded = engine.decode(view, ACTION_TOKENS, never_stop)

    assert decoded.tokens == tokens and decoded.step_ms == ()
    for row, expected in zip(got, logits, strict=True):
        np.testing.assert_array_equal(row, expected)
    np.testing.assert_array_equal(kv_bits(engine), bits)


@pytest.mark.gpu
def test_a_draft_that_is_rejected_anywhere_gives_the_same_tokens_and_bits(engine, case, rng):
    from vla_edge_ros.bench.kernels import inspection

    ids = np.arange(engine.sizes.head_first, engine.sizes.head_first + engine.sizes.head_rows)
    pixels, view = frame_of(rng, case), view_of(case, [6, 2, 5])
    tokens, logits, bits = run_plain(engine, pixels, view)
    for rejected in range(ACTION_TOKENS):
        draft = list(tokens)
        draft[rejected] = int(rng.choice(ids[ids != tokens[rejected]]))
        engine.embed_frame(pixels)
        engine.prefill(view, draft)
        decoded = engine.decode(view, ACTION_TOKENS, never_stop)
        assert decoded.tokens == tokens
        assert 1 + len(decoded.step_ms) == passes_needed(tokens, draft)
        if rejected < ACTION_TOKENS - 2:
            row_of_last = ACTION_TOKENS - 2 - rejected  # in the second pass
            np.testing.assert_array_equal(inspection.draft_logits(engine)[row_of_last], logits[-1])
        elif rejected == ACTION_TOKENS - 2:  # one token is left, which no draft token can help
            np.testing.assert_array_equal(inspection.logits(engine), logits[-1])
        np.testing.assert_array_equal(kv_bits(engine), bits)


@pytest.mark.gpu
@pytest.mark.parametrize("accepted", [0, 1, 3])
def test_plain_steps_go_on_with_the_same_bits_where_drafts_are_rejected(engine, case, rng, accepted):
    from vla_edge_ros.bench.kernels import inspection

    pixels, view = frame_of(rng, case), view_of(case, [6, 2, 5])
    tokens, logits, bits = run_plain(engine, pixels, view)
    first = engine.sizes.head_first
    draft = [*tokens[:accepted], *(first + (token - first + 1) % 2 for token in tokens[accepted:])]
    asked = []

    def keep_logits(_):
        asked.append(inspection.logits(engine))
        return False

    engine.embed_frame(pixels)
    engine.prefill(view, draft)
    decoded = engine.decode(view, ACTION_TOKENS, keep_logits)
    assert decoded.tokens == tokens and 1 + len(decoded.step_ms) == passes_needed(tokens, draft)
    plain_steps = len(decoded.step_ms) - (MOST_REJECTED_PASSES - (accepted == 0))
    assert plain_steps > 0, "expected the verification to end"
    got = [*asked, inspection.logits(engine)][-plain_steps:]
    np.testing.assert_array_equal(got, logits[-plain_steps:])
    np.testing.assert_array_equal(kv_bits(engine), bits)


@pytest.mark.gpu
def test_a_draft_token_that_is_not_finite_does_not_fail_the_chunk(engine, case, rng):
    if engine.sizes.embedding.bits != 16 or engine.sizes.head_first < TILE_ROWS:
        pytest.skip("needs bfloat16 embeddings, and a row tile of tokens that are no action tokens")
    pixels, view = frame_of(rng, case), view_of(case, [6, 2, 5])
    tokens, _, bits = run_plain(engine, pixels, view)
    not_finite = engine.buffers.array("embedding", np.uint16, (TILE_ROWS * case.decoder.hidden_size,))
    kept = not_finite.get()
    not_finite.fill(0x7FC0)  # NaN
    try:
        other = engine.sizes.head_first + (tokens[0] == engine.sizes.head_first)
        for draft in ([1], [*tokens[:3], 1, *tokens[4:]], [other, *tokens[1:3], 1, *tokens[4:]]):
            engine.embed_frame(pixels)
            engine.prefill(view, draft)
            assert engine.decode(view, ACTION_TOKENS, never_stop).tokens == tokens
            np.testing.assert_array_equal(kv_bits(engine), bits)
    finally:
        not_finite.set(kept)


@pytest.mark.gpu
def test_a_stream_with_any_drafts_stays_on_the_tokens_of_plain_decoding(engine, case, rng):
    """Hundreds of frames over reused pages; drafts at random, repeated, half right, too short, too long."""
    ids = np.arange(engine.sizes.head_first, engine.sizes.head_first + engine.sizes.head_rows)
    pages, last = [2, 3, 4, 5, 6, 7], (int(ids[0]),) * ACTION_TOKENS
    scene = frame_of(rng, case)
    for cycle in range(200):
        pages = [*pages[1:], pages[0]]
        scene[cycle % len(scene)] = rng.integers(0, 256, scene[0].shape, np.uint8)
        view = view_of(case, pages)
        engine.embed_frame(scene)
        engine.prefill(view)
        tokens = engine.decode(view, ACTION_TOKENS, never_stop).tokens
        half = [*tokens[: cycle % 9], *rng.choice(ids, 9).tolist()]
        for draft in (last, half, rng.choice(ids, 1 + cycle % 12).tolist()):
            engine.embed_frame(scene)
            engine.prefill(view, draft)
            decoded = engine.decode(view, ACTION_TOKENS, never_stop)
            assert decoded.tokens == tokens
            assert 1 + len(decoded.step_ms) <= ACTION_TOKENS
        last = tokens


@pytest.mark.gpu
def test_decoding_with_a_draft_stops_between_passes(engine, case, rng):
    pixels, view = frame_of(rng, case), view_of(case, [3, 7])
    tokens, *_ = run_plain(engine, pixels, view)
    rejected = [int(engine.sizes.head_first + (token - engine.sizes.head_first + 1) % 2) for token in tokens]
    engine.embed_frame(pixels)
    engine.prefill(view, rejected)
    asked = []

    def stop_after_one(step_ms):
        asked.append(len(step_ms))
        return len(step_ms) == 1

    stopped = engine.decode(view, ACTION_TOKENS, stop_after_one)
    assert stopped.stopped and len(stopped.step_ms) == 1 and asked == [0, 1]
    assert stopped.tokens == tokens[: len(stopped.tokens)] and 2 <= len(stopped.tokens) < ACTION_TOKENS


@pytest.mark.gpu
def test_a_drafted_token_that_is_none_is_refused(engine, case, rng):
    view = view_of(case, [3, 7])
    engine.embed_frame(frame_of(rng, case))
    with pytest.raises(EngineError, match=f"drafted tokens of 0 to {case.decoder.vocab_size - 1}, got -1"):
        engine.prefill(view, [-1])
