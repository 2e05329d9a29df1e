# SPDX-License-Identifier: Apache-2.0
"""Signatures and docstrings of functions that take many options, made from the tables the command line is made from."""
from __future__ import annotations

import difflib
import functools
import inspect
import textwrap
import typing
from collections.abc import Callable, Container, Sequence
from typing import Any

from ._typing import Option

TYPES: dict[str, Any] = {"N": int, "X": float, "NAME": str, "X|NAME": float | str, "auto|X": float | str, "FILE": str,
                         "LIST": Sequence[int], "": bool}
TITLES = {"": "Options", "param": "Learning (method='param')", "consensus": "Consensus (method='consensus')",
          "head": "Heads"}


def parameter(option: Option) -> inspect.Parameter:
    kind = typing.Literal[tuple(option["choices"])] if option["choices"] else TYPES[option["type"]]
    if option["default"] is None:
        kind = kind | None
    return inspect.Parameter(option["name"], inspect.Parameter.KEYWORD_ONLY, default=option["default"], annotation=kind)


def describe(options: Sequence[Option]) -> str:
    """The sections of a docstring, in numpy's form."""
    text = ""
    for group in dict.fromkeys(option["group"] for option in options):
        text += f"\n\n{TITLES[group]}\n{'-' * len(TITLES[group])}\n"
        for option in (option for option in options if option["group"] == group):
            kind = "{" + ", ".join(map(repr, option["choices"])) + "}" if option["choices"] else (
                {"X|NAME": "float or str", "auto|X": "'auto' or float", "FILE": "path", "LIST": "list of int"}.get(
                    option["type"]) or TYPES[option["type"]].__name__)
            default = "optional" if option["default"] is None else f"default {option['default']!r}"
            text += f"{option['name']} : {kind}, {default}\n"
            text += textwrap.fill(option["help"], 110, initial_indent="    ", subsequent_indent="    ") + "\n"
    return text.rstrip()


F = typing.TypeVar("F", bound=Callable[..., Any])


def takes(*tables: Sequence[Option], leave_out: Container[str] = ()) -> Callable[[F], F]:
    """Gives a function with **options the options of the tables as keywords: in its signature, help and errors."""
    options = [option for table in tables for option in table if option["name"] not in leave_out]
    names = [option["name"] for option in options]

    def decorate(function: F) -> F:
        own = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.VAR_KEYWORD]
        known = {*names, *(p.name for p in own)}

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            for name in keywords:
                if name not in known:
                    near = difflib.get_close_matches(name, known, 1)
                    raise TypeError(f"{function.__name__}() got an unexpected keyword argument '{name}'"
                                    + (f"; did you mean '{near[0]}'?" if near else ""))
            return function(*arguments, **keywords)

        signature = inspect.Signature(own + [parameter(option) for option in options])
        setattr(call, "__signature__", signature)  # noqa: B010  mypy knows no such attribute of a function
        call.__doc__ = inspect.cleandoc(function.__doc__ or "") + describe(options) + "\n"
        return typing.cast(F, call)

    return decorate
