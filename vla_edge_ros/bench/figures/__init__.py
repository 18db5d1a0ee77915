# SPDX-License-Identifier: Apache-2.0
"""Figures of the documents, written from the data files that the benchmarks left."""
