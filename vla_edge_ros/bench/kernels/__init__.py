# SPDX-License-Identifier: Apache-2.0
"""The engine on a GPU: times, accuracy and memory, beside PyTorch and Hugging Face."""
