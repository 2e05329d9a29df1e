# SPDX-License-Identifier: Apache-2.0
"""What kedge raises where one of Python's own kinds of error is not enough."""


class UnknownSpace(KeyError, ValueError):
    """A bundle has no space of that name: a KeyError, as of any mapping, and a ValueError like all wrong arguments."""

    def __str__(self) -> str:
        return str(self.args[0])  # KeyError alone would show the sentence in quotes, with its own escaped
