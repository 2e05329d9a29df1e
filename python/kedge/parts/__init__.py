# SPDX-License-Identifier: Apache-2.0
"""What kedge.ray and kedge.spark share: rows of Arrow batches summed up in parts, and maps applied to them."""
