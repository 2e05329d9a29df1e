# SPDX-License-Identifier: Apache-2.0
"""migrate.toml: what is to be migrated, and how. Every command reads it; 'plan' writes it if there is none."""
from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from .._address import to_keep
from .._errors import BadFile, UsageError


def _setting(default: Any, purpose: str, metavar: str = "TEXT", choices: Sequence[str] | None = None) -> Any:
    return dataclasses.field(default=default, metadata={"help": purpose, "metavar": metavar, "choices": choices})


@dataclasses.dataclass
class Config:
    """The settings of a migration; the command's options have the same help."""
    store: str = _setting("", "address of the vectors that are there now, such as "
                             "postgresql://host/db?table=docs&text=body or faiss:docs.index", "ADDRESS")
    where: str = _setting("", "a condition in SQL, for PostgreSQL: only rows that meet it are migrated, such as "
                              "\"collection_id = 7\"", "CONDITION")
    into: str = _setting("", "address of the new vectors [beside the old ones, named ..._new], or 'column' for one "
                             "of the same PostgreSQL table", "ADDRESS")
    embed: str = _setting("", "the new model: sentence-transformers:MODEL, openai:MODEL, cohere:MODEL, voyage:MODEL, "
                              "http://host/v1#MODEL for a server like OpenAI's, a name or folder for kedge-encode, or "
                              "module:function, which takes a list of texts and returns a matrix [none: you embed what "
                              "'sample' and 'top-up' write]", "MODEL")
    embed_query: str = _setting("", "the new model for queries, if another function or prefix embeds them than "
                                    "documents; as 'embed' [as 'embed', which knows queries from documents with "
                                    "sentence-transformers, cohere and voyage]", "MODEL")
    price: float = _setting(0.0, "what the new model costs for a million tokens, in any currency", "PRICE")
    texts: str = _setting("", "texts of the documents, where the store has none: a .txt whose line n is document n, "
                              "counted from 0, or a .jsonl with id and text", "FILE")
    sample: int = _setting(1000, "documents that both models embed, to learn the map from", "ROWS")
    map: str = _setting("auto", "ridge, kernel, or whichever has the smaller error",
                        choices=("auto", "ridge", "kernel"))
    normalize: bool = _setting(True, "whether new vectors get length 1, translated and real ones alike")
    old_encoder: str = _setting("answers", "whether the old model can still embed queries",
                                choices=("answers", "gone"))
    queries: str = _setting("", "a log of queries: a .txt with one in every line", "FILE")
    embed_old: str = _setting("", "the old model, for the queries; as 'embed_query'", "MODEL")
    old_queries: str = _setting("", "the queries as the old model embeds them", "FILE.npy")
    new_queries: str = _setting("", "the queries as the new model embeds them", "FILE.npy")
    judgements: str = _setting("", "which documents are right for a query: rows of query (its line, from 0), document "
                                   "(its id), grade; a .tsv or an .npy of integers", "FILE")
    seed: int = _setting(0, "for everything that is drawn at random", "N")

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, wanted = getattr(self, field.name), type(field.default)
            if wanted is float and type(value) is int:
                setattr(self, field.name, value := float(value))
            if type(value) is not wanted:
                raise UsageError(f"{field.name} must be {_WORDS[wanted]}, found {value!r}")
            choices = field.metadata["choices"]
            if choices and value not in choices:
                raise UsageError(f"{field.name} must be one of {', '.join(choices)}, found {value!r}")
        if self.sample < 2:
            raise UsageError(f"sample must be at least 2 documents, found {self.sample}; a few thousand are usual")
        if not 0 <= self.price < float("inf"):
            raise UsageError(f"price must be 0 or more, found {self.price}")
        if self.seed < 0:
            raise UsageError(f"seed must be 0 or more, found {self.seed}")


_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


def read(path: str | os.PathLike[str]) -> Config:
    """The settings in a file; raises BadFile if it is missing or has settings that do not exist."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    path = pathlib.Path(path)
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise BadFile(f"there is no {path}; 'kedge-migrate plan --store ADDRESS' writes one") from None
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} cannot be read: {error}") from None
    known = {field.name for field in dataclasses.fields(Config)}
    for name in found:
        if name not in known:
            raise BadFile(f"{path} has a setting {name!r}, which kedge-migrate does not know; it knows "
                          f"{', '.join(sorted(known))}")
    try:
        config = Config(**found)
    except UsageError as error:
        raise BadFile(f"{path}: {error}") from None
    if not config.store:
        raise BadFile(f"{path} names no store; give it as store = \"ADDRESS\"")
    return config


def write(config: Config, path: str | os.PathLike[str]) -> None:
    """A file with every setting that differs from its default, but without passwords; the others are there as
    comments."""
    lines = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.metadata["metavar"] == "ADDRESS":
            value = to_keep(value)
        given = f"{field.name} = {json.dumps(value, ensure_ascii=False)}"
        lines.append(given if value != field.default else f"# {given}")
        lines[-1] += f"{' ' * max(1, 40 - len(lines[-1]))}# {field.metadata['help']}"
    # Nobody else may read it: it says who uses which database, and what is in it.
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
