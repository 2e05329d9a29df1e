# SPDX-License-Identifier: Apache-2.0
from .._program import BadFile


class BadResults(BadFile):
    """A results file cannot be shown; the sentence says who, what was expected, what was found, and what to do."""
