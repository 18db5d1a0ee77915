# SPDX-License-Identifier: Apache-2.0
"""What a terminal shows of a running graph, from its messages alone; without ROS."""
