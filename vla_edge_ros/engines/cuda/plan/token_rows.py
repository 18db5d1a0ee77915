# SPDX-License-Identifier: Apache-2.0
"""The rows of one pass, as ``token_rows.cuh`` lays them out."""

from __future__ import annotations

from dataclasses import dataclass

TILE_TOKENS = 8
COLUMN_TILE_BYTES = 256  # 8 tokens of 16 k, two bytes each
ONE_TOKEN_BYTES = 64  # a bfloat16 and its rest of 16 k


@dataclass(frozen=True, slots=True)
class TokenRows:
    """``frame`` tokens in eights, or none, and behind them ``action`` tokens in eights, or none, or one."""

    frame: int
    action: int

    @property
    def tokens(self) -> int:
        return self.frame + self.action

    @property
    def single(self) -> bool:
        """A decode step."""
        return self.tokens == 1

    @property
    def column_tiles(self) -> int:
        """An action's token takes a column in two tiles: its bfloat16 and the rest of the rounding."""
        return 1 if self.single else (self.frame + 2 * self.action) // TILE_TOKENS

    @property
    def operand_bytes(self) -> int:
        """Of one k tile of 16."""
        return ONE_TOKEN_BYTES if self.single else self.column_tiles * COLUMN_TILE_BYTES
