# SPDX-License-Identifier: Apache-2.0
"""An action's tokens behind a prefill: verification passes over draft tokens, and plain decode steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import cupy

from vla_edge_ros.engines.cuda.load.kernels import Kernel
from vla_edge_ros.engines.cuda.load.memory import DeviceMemory
from vla_edge_ros.engines.cuda.plan.chunk_state import LiveRows, write_state
from vla_edge_ros.engines.cuda.plan.sizes import Sizes
from vla_edge_ros.engines.cuda.run.decode_steps import DecodeSteps
from vla_edge_ros.engines.cuda.run.graphs import TimedGraph, copy_to_device
from vla_edge_ros.engines.cuda.run.host_memory import HostMemory
from vla_edge_ros.engines.cuda.run.passes import Pass, draft_rows, embed_ids, launch_embed_drafts
from vla_edge_ros.engines.cuda.run.prefill import Pages
from vla_edge_ros.engines.cuda.run.speculative_decoding import SpeculativeTokens


class ActionDecoder:
    """``begin`` before a chunk's last prefill pass, ``take_prefill`` behind it, then ``run_pass`` as often
    as it takes."""

    def __init__(
        self,
        stream: cupy.cuda.Stream,
        sizes: Sizes,
        kernels: Mapping[str, Kernel],
        memory: DeviceMemory,
        passes: Mapping[str, Pass],
        steps: DecodeSteps,
        host: HostMemory,
    ):
        """``kernels``: the prefill's."""
        self._stream, self._sizes, self._kernels, self._memory = stream, sizes, kernels, memory
        self._steps, self._host = steps, host
        self.graphs: list[TimedGraph] = []
        if not sizes.draft_tokens or sizes.has_queries:
            return

        def verify() -> None:
            launch_embed_drafts(stream.ptr, sizes, kernels, memory)
            passes["verify"].launch(stream.ptr, draft_rows(sizes, memory))

        copies = ((memory["verify_state"], host.states["verify"]), (memory["draft_ids"], host.draft_ids))
        self._verification = TimedGraph(stream, verify, *copies)
        self.graphs.append(self._verification)

    @property
    def accepted(self) -> Sequence[int]:
        """The action's tokens so far."""
        return self._tokens.accepted

    def begin(self, seen: Pages, action_page: int) -> None:
        """For an action behind the pages ``seen``, whose tokens go to ``action_page``."""
        self._seen, self._action_page = seen, action_page
        self._first_step: int | None = None

    def take_prefill(self, drafted: Sequence[int]) -> None:
        """Accept what the prefill has predicted, with the draft tokens ``drafted`` behind its frame."""
        self._tokens = SpeculativeTokens(drafted)
        self._tokens.accept(self._host.tokens_out.tolist(), drafted)

    def take_all(self, count: int) -> None:
        """Accept the prefill's ``count`` tokens: parallel decoding."""
        self._tokens = SpeculativeTokens(())
        self._tokens.accept_all(self._host.tokens_out[:count].tolist())

    def prepare_steps(self, accepted: int) -> None:
        """For plain steps from the last of ``accepted`` tokens on, in a row."""
        self._first_step = accepted
        seen = self._seen + Pages.of([self._action_page], [accepted])
        rows, at = LiveRows(1, accepted - 1), accepted - 1
        state, slots = self._host.states["decode"], self._sizes.page_slots
        write_state(state, seen.pages, seen.fills, slots, action=rows, step=at)
        copy_to_device(self._stream.ptr, self._memory["decode_state"], state)

    def run_pass(self, count: int) -> float:
        """The next pass of an action of ``count`` tokens; ms."""
        drafted = self._tokens.draft_tokens(count)
        return self._verify(drafted) if drafted else self._plain_step(count)

    def _plain_step(self, count: int) -> float:
        """Accepts one token."""
        at = len(self.accepted)
        if self._first_step is None:  # draft tokens were verified before
            self.prepare_steps(at)
            self._embed_last_token()
        first = self._first_step if self._first_step is not None else at
        step_ms = self._steps.run(at - first, count - first)
        self._host.require_finite(f"decode step {at}", at)
        self._tokens.accept([int(self._host.tokens_out[at])], ())
        return step_ms

    def _embed_last_token(self) -> None:
        """As the next step's input; a prefill without draft tokens has left it there."""
        ids = self._memory["draft_ids"]
        self._host.draft_ids[0] = self.accepted[-1]
        copy_to_device(self._stream.ptr, ids, self._host.draft_ids)
        embed_ids(self._stream.ptr, self._kernels, self._memory, self._memory["next_token"], ids, 1)

    def _verify(self, drafted: Sequence[int]) -> float:
        """One verification pass over the last accepted token and ``drafted`` behind it.

        It accepts nothing where a draft token, which may be any, leaves what is not finite: a row's weight
        for those behind it is zero, and zero times NaN is NaN. A plain step then tells whose fault it was.
        """
        tokens, host = self.accepted, self._host
        # The last token's slot: the draft tokens behind it were rejected, and are overwritten.
        rows = LiveRows(1 + len(drafted), len(tokens) - 1)
        seen = self._seen + Pages.of([self._action_page], [rows.first + rows.count])
        write_state(host.states["verify"], seen.pages, seen.fills, self._sizes.page_slots, action=rows)
        host.draft_ids[: rows.count] = [tokens[-1], *drafted]
        step_ms = self._verification.run()
        if host.status[0]:
            self._tokens.reject_draft()
        else:
            self._tokens.accept(host.tokens_out.tolist(), drafted)
        return step_ms
