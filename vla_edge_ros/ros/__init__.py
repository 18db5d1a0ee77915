# SPDX-License-Identifier: Apache-2.0
"""The only folder that imports rclpy or message packages."""
