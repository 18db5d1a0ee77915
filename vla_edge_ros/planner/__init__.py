# SPDX-License-Identifier: Apache-2.0
"""What a model needs on a board: time, memory and rate, from published figures and an H200's runs."""
