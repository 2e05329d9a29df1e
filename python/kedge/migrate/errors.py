# SPDX-License-Identifier: Apache-2.0
"""What can go wrong. Messages are whole sentences for the user; 'exit' is what the command ends with."""


class Error(Exception):
    """It failed: a store does not answer, a disk is full, a place is taken."""
    exit = 1


class UsageError(Error):
    """It was asked for something that does not exist or does not fit together."""
    exit = 2


class BadFile(Error):
    """A file is missing, damaged, or not what it should be."""
    exit = 3
