# SPDX-License-Identifier: Apache-2.0
"""The whole graph live: camera, reasoner and a controller's probe, calm or with trouble."""
