# SPDX-License-Identifier: Apache-2.0
"""Eviction policies, one family a file; ``kv_cache.eviction`` holds their protocol and registry."""
