# SPDX-License-Identifier: Apache-2.0
"""A simulated arm over a table with buttons: the robot that the shipped policy was trained for.

World frame: right-handed, metres, z up, the table top at z = 0, x to the right in the picture, y away from
the camera. Neither ROS nor PyTorch is needed; MuJoCo only for the physics (``physics.py``).
"""
