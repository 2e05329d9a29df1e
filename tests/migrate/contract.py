# SPDX-License-Identifier: Apache-2.0
"""What every store must do. A store's test file subclasses StoreContract and gives one fixture, 'filled'.

    class TestNpy(StoreContract):
        @pytest.fixture
        def filled(self, tmp_path):
            vectors = unit_rows(ROWS, OLD_WIDTH)
            np.save(tmp_path / "docs.npy", vectors)
            return Filled(open_store(f"npy:{tmp_path}/docs.npy"), list(range(ROWS)), vectors)
"""
from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from kedge.migrate import Error
from kedge.migrate.store import Contents, Missing, Rows, Store, open_store
from kedge.migrate.stores.scores import score
from require import texts_of

ROWS, OLD_WIDTH, NEW_WIDTH = 101, 16, 24
OWNER = "migration-of-the-contract"


def unit_rows(rows: int, width: int, seed: int = 1) -> np.ndarray:
    """Random rows of length 1, which stores that normalise give back as they are."""
    vectors = np.random.default_rng(seed).standard_normal((rows, width)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


@dataclasses.dataclass
class Filled:
    """An old store and what was put into it; 'absent' is an id of the same type that is not in it."""
    store: Store
    ids: list[Any]
    vectors: np.ndarray
    texts: list[str] | None = None
    absent: Any = None

    def __post_init__(self) -> None:
        if self.absent is None:
            self.absent = max(self.ids) + 1000 if isinstance(self.ids[0], int) else "there-is-no-such-id"


def contents(store: Store, **options: Any) -> dict[Any, Any]:
    """{id: vector} of all batches, and that nothing comes twice."""
    found = {}
    for batch in store.read(**options):
        for number, key in enumerate(batch.ids):
            assert key not in found, f"{key} comes twice"
            found[key] = None if batch.vectors is None else batch.vectors[number]
    return found


def order(store: Store, **options: Any) -> list[Any]:
    return [key for batch in store.read(**options) for key in batch.ids]


class StoreContract:
    # How far a value may be from the one put in; and the share of the true best that a search must find.
    tolerance = 0.0
    new_tolerance = 0.0
    recall = 1.0

    @pytest.fixture
    def filled(self) -> Filled:
        raise NotImplementedError("a subclass makes the old store and returns Filled(store, ids, vectors, texts)")

    @pytest.fixture
    def old(self, filled: Filled) -> Iterator[Store]:
        yield filled.store
        filled.store.close()

    @pytest.fixture
    def new(self, old: Store) -> Iterator[Store]:
        """The place beside the old one, made and empty."""
        new = old.beside("_new")
        new.create(old, NEW_WIDTH, OWNER)
        yield new
        new.close()

    @pytest.fixture
    def written(self, filled: Filled, new: Store) -> np.ndarray:
        """The vectors that 'new' holds, in the order of filled.ids; it is finished."""
        vectors = unit_rows(len(filled.ids), NEW_WIDTH, seed=2)
        for first in range(0, len(filled.ids), 40):
            new.write(filled.ids[first:first + 40], vectors[first:first + 40])
        new.finish()
        return vectors

    def require_same(self, store: Store, ids: list[Any], vectors: np.ndarray, tolerance: float,
                     found: dict[Any, Any] | None = None) -> None:
        found = contents(store) if found is None else found
        assert set(found) == set(ids) and len(found) == len(ids)
        if store.describe().kind == "float16":
            vectors = vectors.astype(np.float16).astype(np.float32)
        got = np.array([found[key] for key in ids])
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, vectors, rtol=0, atol=tolerance)

    def require_old(self, store: Store, filled: Filled) -> None:
        self.require_same(store, filled.ids, filled.vectors, self.tolerance)

    def require_new(self, store: Store, filled: Filled, vectors: np.ndarray) -> None:
        self.require_same(store, filled.ids, vectors, self.new_tolerance)

    def test_it_says_what_it_holds(self, filled: Filled, old: Store) -> None:
        found = old.describe()
        assert isinstance(found, Contents)
        assert (found.rows, found.width) == filled.vectors.shape
        assert found.metric in ("cosine", "inner", "euclidean")
        assert found.texts == (filled.texts is not None)
        assert found.owner is None
        assert found.atomic is None or len(found.atomic.split()) > 4

    def test_it_gives_back_every_row_once(self, filled: Filled, old: Store) -> None:
        self.require_old(old, filled)
        assert all(type(key) is type(filled.ids[0]) for key in order(old))

    def test_batches_have_at_most_the_size_and_one_order(self, filled: Filled, old: Store) -> None:
        sizes = [len(batch) for batch in old.read(size=7)]
        assert max(sizes) <= 7 and sum(sizes) == len(filled.ids)
        assert order(old, size=7) == order(old) == order(old, size=1) == order(old, vectors=False)

    def test_reading_goes_on_after_any_id(self, filled: Filled, old: Store) -> None:
        whole = order(old)
        for place in (0, 1, 6, 50, len(whole) - 2, len(whole) - 1):
            assert order(old, after=whole[place], size=7) == whole[place + 1:]
        rest = whole[61:]
        self.require_same(old, rest, filled.vectors[[filled.ids.index(key) for key in rest]], self.tolerance,
                          contents(old, after=whole[60]))

    def test_it_gives_the_rows_of_ids_that_exist(self, filled: Filled, old: Store) -> None:
        chosen = [97, 3, 50, 4, 0]
        ids = [filled.ids[n] for n in chosen]
        self.require_same(old, ids, filled.vectors[chosen], self.tolerance,
                          contents(old, ids=ids + [filled.absent], size=2))
        assert contents(old, ids=[filled.absent]) == {} and contents(old, ids=[]) == {}

    def test_it_gives_ids_without_vectors(self, filled: Filled, old: Store) -> None:
        batches = list(old.read(vectors=False))
        assert all(batch.vectors is None for batch in batches)
        assert {key for batch in batches for key in batch.ids} == set(filled.ids)

    def test_it_gives_texts_where_it_has_them(self, filled: Filled, old: Store) -> None:
        texts: dict[Any, str | None] = {}
        for batch in old.read(vectors=False, texts=True, size=30):
            if filled.texts is None:
                assert batch.texts is None or set(batch.texts) <= {None}
            else:
                assert len(texts_of(batch)) == len(batch.ids)
                texts.update(zip(batch.ids, texts_of(batch)))
        assert texts == ({} if filled.texts is None else dict(zip(filled.ids, filled.texts)))

    def test_a_place_that_is_not_there_is_missing(self, old: Store) -> None:
        absent = old.beside("_absent")
        with pytest.raises(Missing):
            absent.describe()
        with pytest.raises(Missing):
            list(absent.read())
        absent.close()

    def test_a_new_place_is_empty_and_the_owners(self, filled: Filled, old: Store, new: Store) -> None:
        found = new.describe()
        assert (found.rows, found.width, found.owner) == (0, NEW_WIDTH, OWNER)
        assert found.metric == old.describe().metric
        assert contents(new) == {}
        self.require_old(old, filled)

    def test_another_owner_is_refused_and_the_same_one_is_not(self, filled: Filled, old: Store, new: Store,
                                                              written: np.ndarray) -> None:
        with pytest.raises(Error):
            new.create(old, NEW_WIDTH, "another-migration")
        new.create(old, NEW_WIDTH, OWNER)
        self.require_new(new, filled, written)

    def test_what_no_migration_made_is_never_taken(self, filled: Filled, old: Store) -> None:
        with pytest.raises(Error):
            old.create(old, NEW_WIDTH, OWNER)
        self.require_old(old, filled)
        assert old.describe().owner is None

    def test_what_is_written_is_there_for_the_next_process(self, filled: Filled, old: Store, new: Store) -> None:
        vectors = unit_rows(len(filled.ids), NEW_WIDTH, seed=2)
        new.write(filled.ids[:60], vectors[:60])
        again = open_store(new.address)
        self.require_same(again, filled.ids[:60], vectors[:60], self.new_tolerance)
        assert again.describe().rows == 60 and again.describe().owner == OWNER
        whole = order(again)
        assert order(again, after=whole[20]) == whole[21:]
        again.write(filled.ids[60:], vectors[60:])
        again.finish()
        again.close()
        self.require_new(open_store(new.address), filled, vectors)
        self.require_old(old, filled)

    def test_writing_replaces(self, filled: Filled, new: Store, written: np.ndarray) -> None:
        chosen = [5, 100, 2]
        changed = unit_rows(3, NEW_WIDTH, seed=3)
        new.write([filled.ids[n] for n in chosen], changed)
        written[chosen] = changed
        self.require_new(new, filled, written)
        new.finish()
        self.require_new(new, filled, written)
        assert new.describe().rows == len(filled.ids)

    def test_writing_none_removes(self, filled: Filled, old: Store, new: Store, written: np.ndarray) -> None:
        new.write(filled.ids[10:20], None)
        rest = filled.ids[:10] + filled.ids[20:]
        self.require_same(new, rest, np.delete(written, range(10, 20), axis=0), self.new_tolerance)
        new.finish()
        assert set(order(new)) == set(rest) and new.describe().rows == len(rest)
        assert contents(new, ids=filled.ids[10:12]) == {}
        new.write(filled.ids[10:20], written[10:20])
        new.finish()
        self.require_new(new, filled, written)
        self.require_old(old, filled)

    def test_a_vector_is_written_only_onto_the_version_it_was_made_of(self, filled: Filled, old: Store, new: Store,
                                                                      written: np.ndarray) -> None:
        some, changed = filled.ids[3:9], unit_rows(6, NEW_WIDTH, seed=3)
        documents = old.documents_of([*some, filled.absent])
        assert set(documents) == set(some) and len({document.version for document in documents.values()}) == 6
        if filled.texts is not None:
            assert [documents[key].text for key in some] == filled.texts[3:9]
        versions: list[str | None] = [documents[key].version for key in some]
        versions[1], versions[4] = versions[2], None
        done = new.write_version([*some, filled.absent], np.vstack([changed, changed[:1]]), [*versions, versions[0]],
                                 old)
        assert sorted(done) == sorted(key for n, key in enumerate(some) if n not in (1, 4))
        written[[3, 5, 6, 8]] = changed[[0, 2, 3, 5]]
        new.finish()
        self.require_new(new, filled, written)

    def test_it_tells_what_the_other_place_lacks(self, filled: Filled, old: Store, new: Store,
                                                 written: np.ndarray) -> None:
        assert list(old.not_in(new)) == list(new.not_in(old)) == []
        some = filled.ids[3:9]
        new.write(some, None)
        assert sorted(old.not_in(new)) == sorted(some) and list(new.not_in(old)) == []

    def test_writing_nothing_does_nothing(self, filled: Filled, new: Store, written: np.ndarray) -> None:
        new.write([], np.empty((0, NEW_WIDTH), np.float32))
        new.write([], None)
        self.require_new(new, filled, written)

    def test_the_wrong_width_is_an_error_and_changes_nothing(self, filled: Filled, new: Store,
                                                             written: np.ndarray) -> None:
        for width in (NEW_WIDTH - 1, NEW_WIDTH + 1, 1):
            with pytest.raises(Error):
                new.write(filled.ids[:5], unit_rows(5, width, seed=4))
        self.require_new(new, filled, written)

    def test_the_old_is_read_while_the_new_is_written(self, filled: Filled, old: Store, new: Store) -> None:
        vectors = dict(zip(filled.ids, unit_rows(len(filled.ids), NEW_WIDTH, seed=2)))
        for batch in old.read(size=9):
            new.write(batch.ids, np.array([vectors[key] for key in batch.ids]))
        self.require_new(new, filled, np.array(list(vectors.values())))

    def test_two_threads_read_and_write(self, filled: Filled, old: Store, new: Store) -> None:
        vectors = dict(zip(filled.ids, unit_rows(len(filled.ids), NEW_WIDTH, seed=2)))
        batches: queue.Queue[Rows | None] = queue.Queue(2)

        def read() -> None:
            try:
                for batch in old.read(size=9):
                    batches.put(batch)
            finally:
                batches.put(None)

        reader = threading.Thread(target=read)
        reader.start()
        while (batch := batches.get()) is not None:
            new.write(batch.ids, np.array([vectors[key] for key in batch.ids]))
        reader.join()
        self.require_new(new, filled, np.array(list(vectors.values())))
        self.require_old(old, filled)

    def require_best(self, store: Store, ids: list[Any], vectors: np.ndarray, k: int = 5) -> None:
        queries = unit_rows(8, vectors.shape[1], seed=5)
        found, scores = store.search(queries, k)
        expected = score(queries, vectors, store.describe().metric)
        best = np.argsort(-expected, axis=1, kind="stable")[:, :k]
        assert len(found) == len(queries) and scores.shape == (len(queries), k)
        hits = 0
        for query, (got, row) in enumerate(zip(found, scores)):
            assert len(set(got)) == len(got) and (np.diff(row[:len(got)]) <= 0).all()
            hits += len(set(got) & {ids[n] for n in best[query]})
            if self.recall == 1:
                assert got == [ids[n] for n in best[query]]
                np.testing.assert_allclose(row, expected[query, best[query]], atol=max(self.tolerance, 2e-3))
        assert hits >= self.recall * k * len(queries)

    def test_search_finds_the_best(self, filled: Filled, old: Store, new: Store, written: np.ndarray) -> None:
        self.require_best(old, filled.ids, filled.vectors)
        self.require_best(new, filled.ids, written)

    def test_search_for_more_than_there_are_gives_what_there_is(self, filled: Filled, old: Store) -> None:
        found, scores = old.search(unit_rows(2, OLD_WIDTH, seed=5), len(filled.ids) + 3)
        assert scores.shape == (2, len(filled.ids) + 3)
        for got, row in zip(found, scores):
            assert set(got) <= set(filled.ids) and len(set(got)) == len(got)
            assert np.isfinite(row[:len(got)]).all() and (row[len(got):] == -np.inf).all()
            # A graph that is not one piece gives less than it has.
            assert len(got) == len(filled.ids) if self.recall == 1 else len(got) >= 5

    def test_a_switch_puts_the_new_in_the_place_of_the_old(self, filled: Filled, old: Store, new: Store,
                                                           written: np.ndarray) -> None:
        kept = old.beside("_old")
        for _ in range(2):  # the second time there is nothing left to do
            old.switch(new, kept)
            self.require_new(old, filled, written)
            self.require_old(kept, filled)
            assert old.describe().width == NEW_WIDTH and kept.describe().width == OLD_WIDTH
            with pytest.raises(Missing):
                new.describe()
        self.require_best(old, filled.ids, written)
        again = open_store(old.address)
        self.require_new(again, filled, written)
        again.close()
        kept.close()

    def test_a_switch_is_undone_by_another(self, filled: Filled, old: Store, new: Store, written: np.ndarray) -> None:
        kept = old.beside("_old")
        old.switch(new, kept)
        for _ in range(2):
            old.switch(kept, new)
            self.require_old(old, filled)
            self.require_new(new, filled, written)
            with pytest.raises(Missing):
                kept.describe()
        assert new.describe().owner == OWNER and old.describe().owner is None
        old.switch(new, kept)
        self.require_new(old, filled, written)
        kept.close()

    def test_what_is_written_after_a_switch_is_kept(self, filled: Filled, old: Store, new: Store,
                                                    written: np.ndarray) -> None:
        kept = old.beside("_old")
        old.switch(new, kept)
        changed = unit_rows(2, NEW_WIDTH, seed=6)
        old.write(filled.ids[7:9], changed)
        old.finish()
        written[7:9] = changed
        self.require_new(old, filled, written)
        self.require_best(old, filled.ids, written)
        self.require_old(kept, filled)
        kept.close()

    def test_a_place_that_was_made_can_be_dropped(self, filled: Filled, old: Store, new: Store,
                                                  written: np.ndarray) -> None:
        new.drop()
        with pytest.raises(Missing):
            new.describe()
        self.require_old(old, filled)
        new.create(old, NEW_WIDTH, OWNER)
        assert new.describe().rows == 0


class CollectionContract(StoreContract):
    """Of stores whose places are collections named docs, docs_new and docs_old, made and taken one by one."""

    def test_places_that_are_taken_or_gone(self, filled: Filled, old: Store, new: Store, written: np.ndarray) -> None:
        other = old.beside("_old")
        other.create(old, NEW_WIDTH, "another")
        with pytest.raises(Error, match="docs_old.* is taken"):
            old.switch(new, other)
        with pytest.raises(Error, match="was made by the migration 'another'"):
            other.create(old, NEW_WIDTH, OWNER)
        other.drop()
        with pytest.raises(Missing, match="nothing can take the place"):
            old.switch(old.beside("_2"), other)
        self.require_old(old, filled)
        self.require_new(new, filled, written)
