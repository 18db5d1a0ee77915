# SPDX-License-Identifier: Apache-2.0
"""One BLAS thread for a small decoder.

BLAS libraries share even a 32 x 64 product among all cores, and their threads wait for each other by
spinning. Beside other work (a camera, DDS, tests) one that is not scheduled stalls the rest: measured on two
busy cores, a chunk of the tiny decoder takes 12 ms with one thread and 30 to 260 ms with two.
"""

from __future__ import annotations

from collections.abc import Callable

from vla_edge_ros.model.decoder_config import DecoderConfig

# Multiply-adds for one token in a layer's largest matrix; above it, one thread no longer keeps up.
SMALL_PRODUCT = 1 << 20


def limit_blas_threads(config: DecoderConfig) -> Callable[[], None]:
    """Limit this process's BLAS for a small decoder; returns what undoes it. Does nothing for a large one."""
    if config.hidden_size * config.intermediate_size > SMALL_PRODUCT:
        return lambda: None
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # optional: without it the engine is as right, only slower on a busy machine
        return lambda: None
    return threadpool_limits(limits=1, user_api="blas").restore_original_limits
