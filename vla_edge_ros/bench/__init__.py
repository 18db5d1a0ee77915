# SPDX-License-Identifier: Apache-2.0
"""Benchmarks and simulators; each prints machine, command and sizes beside its figures."""
