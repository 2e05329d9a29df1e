# SPDX-License-Identifier: Apache-2.0
"""Two models whose vectors are equally wide: a migration notices which one vectors are of."""
import pathlib

import made_up
import numpy as np
import pytest
from kedge import migrate
from kedge.migrate import models

ROWS, WIDTH, SAMPLE = 1500, 24, 800


def views(rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors of length 1 of three models, in which directions of their own vary most."""
    rng = np.random.default_rng(5)
    hidden = rng.normal(size=(rows, WIDTH)) * np.exp(-np.arange(WIDTH) / 4)
    found = []
    for _ in range(3):
        turned = hidden @ np.linalg.qr(rng.normal(size=(WIDTH, WIDTH)))[0] + .5 * rng.normal(size=WIDTH)
        found.append(np.asarray(turned / np.linalg.norm(turned, axis=1, keepdims=True), np.float32))
    return found[0], found[1], found[2]


@pytest.fixture
def three(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The models of a store of .npy, and the steps up to the fit of a migration from the first to the second."""
    monkeypatch.chdir(tmp_path)
    old, new, third = views(ROWS)
    np.save("docs.npy", old)
    pathlib.Path("texts.txt").write_text("".join(f"{n}\n" for n in range(ROWS)))
    with migrate.Migration.begin(store="npy:docs.npy", texts="texts.txt", sample=SAMPLE) as begun:
        begun.plan()
        begun.sample()
        ids = sorted_as_drawn(begun)
        np.save("made.npy", new[ids])
        begun.sample(vectors="made.npy")
        with pytest.raises(migrate.UsageError, match="is it the same model"):
            models.require_new(begun, third[:50])
        begun.fit()
    return old, new, third


def sorted_as_drawn(begun: migrate.Migration) -> list[int]:
    return [int(text or "") for _, text in begun.journal.unembedded()]


def test_a_store_of_another_model_is_refused(three: tuple[np.ndarray, ...]) -> None:
    np.save("docs.npy", three[2])
    with migrate.Migration() as begun:
        for step in (begun.plan, begun.apply):
            with pytest.raises(migrate.Error,
                               match="nothing in common with those that the sample was drawn"):
                step()
    np.save("docs.npy", three[0])
    with migrate.Migration() as begun:
        begun.apply()


def test_new_vectors_of_another_model_are_refused(three: tuple[np.ndarray, ...]) -> None:
    with migrate.Migration() as begun:
        begun.apply()
        begun.top_up(rows=100)
        handed_out = [key for key, _, _ in begun.journal.fact("handed_out")]
        np.save("more.npy", three[2][handed_out])
        with pytest.raises(migrate.Error, match="is it the same model"):
            begun.top_up(vectors="more.npy")
        np.save("more.npy", three[1][handed_out])
        begun.top_up(vectors="more.npy")


def test_a_query_of_the_other_model_is_refused(three: tuple[np.ndarray, ...]) -> None:
    old, new, third = three
    with migrate.Migration() as begun:
        begun.apply()
        found, _ = migrate.search(begun, old[7], new[7], k=3)
        assert found[0] == 7
        for queries, of in (((None, old[:50]), "new"), ((new[:50], None), "old")):
            with pytest.raises(migrate.UsageError, match=rf"query \d+ was given as the {of} model's and looks like"):
                migrate.search(begun, *queries)
        migrate.search(begun, old[:50], new[:50])
        migrate.search(begun, None, np.full((1, WIDTH), np.nan, np.float32))
        migrate.search(begun, None, third[:50])  # like no document of either: queries may be


def test_a_model_is_not_known_by_a_few_vectors(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old, new = made_up.spaces()
    np.save("docs.npy", old)
    pathlib.Path("texts.txt").write_text("".join(f"{n}\n" for n in range(len(old))))
    with migrate.Migration.begin(store="npy:docs.npy", texts="texts.txt", sample=100) as begun:
        begun.sample()
        np.save("made.npy", new[sorted_as_drawn(begun)])
        begun.sample(vectors="made.npy")
        begun.fit()
        begun.apply()
        migrate.search(begun, None, np.ones(made_up.NEW))
