# SPDX-License-Identifier: Apache-2.0
class BadResults(Exception):
    """A results file cannot be shown; the sentence says who, what was expected, what was found, and what to do."""
