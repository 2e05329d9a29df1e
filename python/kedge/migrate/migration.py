# SPDX-License-Identifier: Apache-2.0
"""One migration: its config, its journal, and the two stores, before and after a cutover."""
from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import urllib.parse

import numpy as np

import kedge

from .._address import scheme_of, to_keep, without_password
from .._errors import Error, UsageError
from . import config as configs
from .journal import Journal
from .store import Store, open_store
from .stores.scores import unit
from .types import Mask, Vectors

CONFIG = "migrate.toml"
# What cannot change once it is begun: rows that are there depend on it.
FIXED = ("store", "where", "into", "normalize")


class Migration:
    """Opens a config and its journal. Commands hold the journal alone; alone=False is for those that only look."""

    models_asked = True  # whether a search holds its queries against the sample
    password_left_out = False  # whether the config was just written, without a password that was given

    def __init__(self, path: str | os.PathLike[str] = CONFIG, alone: bool = True) -> None:
        self.path = pathlib.Path(path)
        self.config = configs.read(self.path)
        self.journal = Journal(self.path.with_suffix(".journal"), alone)
        self.bundle_path = self.path.with_suffix(".kedge")
        self._stores: dict[str, Store] = {}
        self.models: dict[str, kedge.Likeness] = {}  # what the sample knows of each, once it was asked
        self.opened = contextlib.ExitStack()  # what else is closed with it
        try:
            self._require_unchanged()
        except Error:
            self.close()  # so that another try in this process does not find the journal locked
            raise

    def _require_unchanged(self) -> None:
        """Nothing depends on the settings before a sample is drawn: until then a mistake can be corrected."""
        begun = self.journal.fact("begun")
        now = {name: to_keep(value) if isinstance(value := getattr(self.config, name), str) else value
               for name in FIXED}
        if begun is not None:  # journals of earlier releases have a sign for a password
            begun = {name: to_keep(value) if isinstance(value, str) else value for name, value in begun.items()}
        if begun is None or begun != now and not self.journal.drawn():
            self.journal.note(begun=now)
            return
        for name in FIXED:
            if begun.get(name, "") != now[name]:  # journals of earlier releases know fewer settings
                raise UsageError(f"{self.path}: {name} was {begun.get(name, '')!r} when this migration began and is "
                                 f"{now[name]!r}; change it back, or begin another migration with --config NAME.toml")

    @property
    def place(self) -> Store:
        """What the address in the config names, whichever vectors are there now."""
        where = self.config.where
        if where and scheme_of(self.config.store) != "postgresql":
            raise UsageError(f"{self.path}: 'where' is a condition for PostgreSQL; "
                             f"{without_password(self.config.store)} is another kind of store")
        return self._open(self.config.store + (f"&where={urllib.parse.quote(where, safe='')}" if where else ""))

    @property
    def beside(self) -> Store:
        """Where apply puts new vectors."""
        if ":" in self.config.into:
            return self._open(self.config.into)
        if "new" not in self._stores:
            self._stores["new"] = self.place.new_place(self.config.into)
        return self._stores["new"]

    @property
    def kept(self) -> Store:
        """Where old vectors are after a cutover."""
        if "old" not in self._stores:
            self._stores["old"] = self.place.beside("_old")
        return self._stores["old"]

    @property
    def switched(self) -> bool:
        return bool(self.journal.fact("switched", False))

    @property
    def old(self) -> Store:
        """The store with the old model's vectors."""
        return self._as_agreed(self.kept if self._moved else self.place)

    @property
    def new(self) -> Store:
        """The store with the new model's."""
        return self._as_agreed(self.place if self._moved else self.beside)

    @property
    def watched(self) -> bool:
        """Whether the store notes what others change."""
        return self.place.watching(self.journal.owner)

    @property
    def _moved(self) -> bool:
        """Whether a cutover gave the places each other's names."""
        return self.switched and not self.beside.stays

    def _as_agreed(self, store: Store) -> Store:
        """With what apply was told about triggers."""
        store.fire_triggers = self.journal.fact("fire_triggers", True)
        return store

    def require_settled(self) -> None:
        """After a switch that was stopped, only switch() itself can tell which vectors are where."""
        for fact, step in (("switching", "cutover"), ("switching_back", "rollback")):
            if self.journal.fact(fact) is None:
                continue
            if self.never_began(step):
                self.journal.note(**{fact: None})
            else:
                raise Error(f"a {step} was interrupted; run 'kedge-migrate {step}' again to complete it first")

    def never_began(self, step: str) -> bool:
        """Whether a cutover or rollback that was stopped left everything as it was, so that any step may follow."""
        begun = self.place.switching(self.beside, self.kept)
        return not begun if step == "cutover" else begun and self.place.shares_documents  # whose switch is one step

    def require_same_old(self) -> None:
        """The old vectors are those that the sample was drawn from: another migration may have put new ones there."""
        found = self.old.facts()
        now, noted = {"width": found.width, "owner": found.owner}, self.journal.fact("old")
        if noted is None or not self.journal.drawn():
            self.journal.note(old=now)
        elif noted != now:
            raise Error(f"{self.old.shown} does not hold the vectors any more that the sample was drawn from: they had "
                        f"{noted['width']} values and were made by {noted['owner'] or 'no migration'}, these have "
                        f"{now['width']} and were made by {now['owner'] or 'no migration'}; put the old ones back, or "
                        "begin another migration")

    def _open(self, address: str) -> Store:
        if address not in self._stores:
            self._stores[address] = open_store(address)
        return self._stores[address]

    def translator(self, back: bool = False) -> kedge.Translator:
        """From old vectors to new ones, or back."""
        if self.journal.fact("map") is None:
            raise Error("there is no map yet; run 'kedge-migrate fit'")
        try:
            if digest_of(self.bundle_path) != self.journal.fact("fitted"):
                raise Error(f"{self.bundle_path} is not the map that 'kedge-migrate fit' made; put it back, or fit "
                            "again")
            bundle = kedge.load(self.bundle_path)
        except OSError as error:
            raise Error(f"{error}; run 'kedge-migrate fit' again") from None
        return bundle.translator("new", "old") if back else bundle.translator("old", "new")

    def translate(self, translator: kedge.Translator, rows: Vectors) -> Vectors:
        """Old vectors as rows for the new place. Rows that are NaN or zeros have no place there: see 'usable'."""
        return np.asarray(translator.transform(np.ascontiguousarray(rows, np.float32), normalize=self.config.normalize))

    def as_new(self, rows: Vectors) -> Vectors:
        """The new model's own vectors as rows for the new place."""
        return unit(rows) if self.config.normalize else np.asarray(rows, np.float32)

    def close(self) -> None:
        self.opened.close()
        for store in self._stores.values():
            store.close()
        self.journal.close()

    def __enter__(self) -> Migration:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def usable(vectors: Vectors) -> Mask:
    """Which rows can be translated: all values finite, and not all of them zero."""
    return np.asarray(np.isfinite(vectors).all(axis=1) & (vectors != 0).any(axis=1))


def digest_of(path: pathlib.Path) -> str:
    """Tells one map from another."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() if hasattr(hashlib, "file_digest") else (
            hashlib.sha256(file.read()).hexdigest())  # Python 3.10
