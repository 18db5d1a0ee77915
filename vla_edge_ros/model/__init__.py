# SPDX-License-Identifier: Apache-2.0
"""What is known of the model apart from computing it: sizes, weights, patches, prompt, action head."""
