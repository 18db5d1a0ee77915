# SPDX-License-Identifier: Apache-2.0
"""Passes run: captured launches, the state they read, decode steps and drafts."""
