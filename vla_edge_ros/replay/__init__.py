# SPDX-License-Identifier: Apache-2.0
"""Frame sources for the replay camera: video file, image folder, bag, synthetic scene. No ROS."""
