# SPDX-License-Identifier: Apache-2.0
"""The control loop and its parts: slot, clock, watchdog, admission, fallback ladder, metrics. No ROS."""
