# SPDX-License-Identifier: Apache-2.0
"""Admission, drafts and eviction studied on traces and footage, without a running graph."""
