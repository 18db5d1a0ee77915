# SPDX-License-Identifier: Apache-2.0
"""Which frame sits in which page: slot accounting with rollback, and the policies that forget."""
