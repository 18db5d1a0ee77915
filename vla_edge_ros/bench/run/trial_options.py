# SPDX-License-Identifier: Apache-2.0
"""The command line between the starting process and the one that runs a trial."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PARAMETER_FILE = "parameters.yaml"
# Shares of a trial at which pictures of what is kept are written; the last before it ends.
MOMENTS = (0.25, 0.5, 0.75, 0.97)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOptions:
    """``folder`` holds the parameter file and takes what the trial writes."""

    folder: Path
    trial_s: float
    source: str = ""
    rate_hz: float = 60.0

    @property
    def moments_s(self) -> list[float]:
        return [share * self.trial_s for share in MOMENTS]

    def arguments(self) -> list[str]:
        """The way back is ``parse``."""
        return [
            f"--folder={self.folder}",
            f"--trial-s={self.trial_s!r}",
            f"--source={self.source}",
            f"--rate-hz={self.rate_hz!r}",
        ]


def parse(arguments: Sequence[str], description: str | None) -> TrialOptions:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--trial-s", type=float, required=True)
    parser.add_argument("--source", default="")
    parser.add_argument("--rate-hz", type=float, default=60.0)
    return TrialOptions(**vars(parser.parse_args(arguments)))
