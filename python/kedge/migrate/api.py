# SPDX-License-Identifier: Apache-2.0
"""A migration in Python: a method for each step of the command, which prints what these return."""
from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from .._errors import UsageError
from .._progress import ShowProgress, progress_goes_to
from . import config as configs
from . import migration
from .migration import CONFIG
from .types import Found


class Migration(migration.Migration):
    """One migration: opens its config and its journal.

    Every step can be run again and continues where it was stopped. What a step returns can be written as JSON, and is
    what the command prints with --json. progress: a function that is called with step, done, total and detail; True
    shows a bar, False nothing. Steps hold the journal alone; open with alone=False to look at a migration that may be
    at work elsewhere.

    >>> with Migration.begin("migrate.toml", store="npy:docs.npy", embed="models:new") as migration:
    ...     migration.sample()
    ...     migration.fit()
    ...     print(migration.check()["verdict"])
    """

    @classmethod
    def begin(cls, path: str | os.PathLike[str] = CONFIG, **settings: Any) -> Migration:
        """Writes a new config and opens it; the settings are the fields of kedge.migrate.Config."""
        try:
            config = configs.Config(**settings)
        except TypeError as error:
            raise UsageError(f"a migration has no such setting: {error}") from None
        if not config.store:
            raise UsageError("a migration needs the address of its store, as store=...")
        if os.path.exists(path):
            raise UsageError(f"{path} is there already; open it with Migration(path), or choose another path")
        configs.write(config, path)
        begun = cls(path)
        # A password is for this process alone.
        begun.password_left_out = begun.config != config
        begun.config = config
        return begun

    def __enter__(self) -> Migration:
        return self

    @contextlib.contextmanager
    def _step(self, progress: ShowProgress | None, settled: bool = True) -> Iterator[None]:
        """Before any work: no switch is half done, and the old vectors are those the sample was drawn from.
        progress: None leaves it to the program, which has a terminal or a log."""
        if settled:
            self.require_settled()
            self.require_same_old()
        with contextlib.nullcontext() if progress is None else progress_goes_to(progress):
            yield

    def plan(self, *, progress: ShowProgress | None = False) -> Found:
        """Looks at the store: what is in it, and what a migration costs."""
        from . import survey
        with self._step(progress, settled=False):
            return survey.plan(self, quiet=False)

    def sample(self, rows: int | None = None, *, target_error: float | None = None,
               vectors: str | os.PathLike[str] | None = None, again: bool = False,
               progress: ShowProgress | None = False) -> Found:
        """Draws the documents that both models embed, and embeds them. rows: how many in all; target_error: or as many
        as bring the map's error down to this share of the variance. vectors: a .npy of the new model's vectors of what
        waits for them. again: forgets the new model's vectors first."""
        from . import embed, queries, sample
        with self._step(progress):
            if again:  # perhaps the model was the wrong one
                queries.forget_queries(self)
            if target_error is not None:
                return {**sample.until(self, target_error, quiet=False), **embed.paid(self)}
            path = None if vectors is None else os.fspath(vectors)
            return {**sample.sample(self, rows, path, again, quiet=False), **embed.paid(self)}

    def fit(self) -> Found:
        """Learns the map from old vectors to new ones."""
        from . import maps
        return maps.fit(self)

    def check(self, *, whole: bool = False, gate: float | None = None) -> Found:
        """Measures what search will keep, and says what to do: translate, fuse or embed again. whole: with judged
        queries, searches also all of a store of more than 200,000 rows. gate: the share of the old model's score (of
        the new one's if the old is gone) that this must keep; found["gate"]["passed"] says whether the lower end of its
        interval does."""
        from . import check
        with self._step(None):
            return check.check(self, whole, gate)

    def apply(self, *, fire_triggers: bool | None = None, rate: float | None = None, max_lag: float | None = None,
              progress: ShowProgress | None = False) -> Found:
        """Translates every vector into a new place beside the old. fire_triggers: whether triggers that the new place
        has run for every row; it must be said where there are any. rate: rows a second at most; max_lag: it waits
        while replicas are so many seconds behind."""
        from . import apply
        with self._step(progress):
            return apply.apply(self, False, fire_triggers, rate, max_lag)

    def verify(self, rows: int = 1000) -> Found:
        """Checks that the new place is complete and right, and makes so many of its rows again; 'whole' in what it
        returns says whether all is right."""
        from . import verify
        with self._step(None):
            return verify.verify(self, rows)

    def cutover(self, *, yes: bool = False) -> Found:
        """Puts the new vectors where the old ones are; yes: also where the store cannot do that in one step."""
        from . import cutover
        return cutover.cutover(self, yes)

    def rollback(self, *, drop: bool = False, yes: bool = False, fire_triggers: bool | None = None) -> Found:
        """Puts the old vectors back; drop: also removes the new ones. fire_triggers: as for apply, where documents get
        old vectors that came or changed since the cutover."""
        from . import rollback
        return rollback.rollback(self, drop, yes, fire_triggers)

    def finish(self) -> Found:
        """Stops noting what others change; the old vectors can go then."""
        from . import cutover
        return cutover.finish(self)

    def top_up(self, rows: int | None = None, *, share: float | None = None,
               vectors: str | os.PathLike[str] | None = None, rate: float | None = None,
               max_lag: float | None = None, progress: ShowProgress | None = False) -> Found:
        """Replaces translated vectors by real ones, the most useful first: so many, until this share is real, or
        all. vectors: a .npy of the new model's vectors of what was handed out. rate and max_lag: as for apply."""
        from . import embed, top_up
        with self._step(progress):
            path = None if vectors is None else os.fspath(vectors)
            return {**top_up.top_up(self, rows, share, path, False, rate, max_lag), **embed.paid(self)}

    def status(self) -> Found:
        """Where the migration stands."""
        from . import status
        return status.status(self)

    def report(self, out: str | os.PathLike[str] | None = None) -> Found:
        """Writes a page with the quality so far and what was done when."""
        from . import report
        return report.report(self, None if out is None else os.fspath(out))

    def sql(self, *, install: bool = False) -> Found:
        """The fused search as an SQL function, for PostgreSQL; install: puts it into the database."""
        from . import fused
        with self._step(None):
            return fused.sql(self, install)
