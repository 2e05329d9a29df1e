# SPDX-License-Identifier: Apache-2.0
"""One file for each kind of store; docs/new-store.md shows how to add one."""
