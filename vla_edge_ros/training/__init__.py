# SPDX-License-Identifier: Apache-2.0
"""Training a policy on the simulated table, exactly as the engines will run it. Needs PyTorch."""
