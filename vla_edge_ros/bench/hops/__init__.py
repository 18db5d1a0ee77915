# SPDX-License-Identifier: Apache-2.0
"""One hop of a frame at a time on the CPU: slot, image callback, camera, cycle, memory."""
