# SPDX-License-Identifier: Apache-2.0
"""``run_benchmarks``: eviction policies back to back on the same footage, and a report."""
