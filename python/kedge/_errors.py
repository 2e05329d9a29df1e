# SPDX-License-Identifier: Apache-2.0
"""The errors of kedge's programs, and what the library raises if Python's own kinds of error are not enough."""


class Error(Exception):
    """A program failed. The message is a whole sentence for the user; 'exit_code' is what the command ends with."""
    exit_code = 1


class UsageError(Error):
    """It was asked for something that does not exist or does not fit together."""
    exit_code = 2


class BadFile(Error):
    """A file is missing, damaged, or not what it should be."""
    exit_code = 3


class UnknownSpace(KeyError, ValueError):
    """A bundle has no space of that name: a KeyError, as of any mapping, and a ValueError like all wrong arguments."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError alone would show the sentence in quotes, with its own escaped
