# SPDX-License-Identifier: Apache-2.0
"""A run on disk: one row a cycle, the ROS topics as MCAP, and the summary that is made of them. No ROS."""
