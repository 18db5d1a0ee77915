# SPDX-License-Identifier: Apache-2.0
"""A vision-language-action model between a camera that never stops and a deadline that never waits."""

__version__ = "0.1.0"
