# SPDX-License-Identifier: Apache-2.0
"""What can go wrong. Messages are whole sentences for the user; 'exit' is what the command ends with."""


class Error(Exception):
    """It failed: no model, no memory, no space on the disk."""
    exit = 1


class UsageError(Error):
    """It was asked for something that does not exist or does not fit together."""
    exit = 2


class BadFile(Error):
    """A file is missing, damaged, or not what it should be."""
    exit = 3


class BadRow(Exception):
    """One input cannot be embedded; whoever knows the rows of the data turns this into a BadFile."""

    def __init__(self, index, why):
        super().__init__(why)
        self.index = index


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with a sentence that says where the work stands."""
