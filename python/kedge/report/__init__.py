# SPDX-License-Identifier: Apache-2.0
"""The HTML report of 'kedge stitch' and 'kedge sweep': python -m kedge.report OUT."""
