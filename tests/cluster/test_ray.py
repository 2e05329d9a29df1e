# SPDX-License-Identifier: Apache-2.0
"""kedge.ray on a real cluster of two nodes: the command's bundle, and what its maps make."""
from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import command
import kedge
import kedge.ray
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import ray
from conftest import ROWS
from kedge import Bundle
from made_up import COLUMNS, Spaces, by_id, difference, folder_of, table

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster

pytestmark = pytest.mark.long

SUPPORT = 400


@pytest.fixture(scope="module")
def bundle(nodes: Cluster, folder: pathlib.Path) -> Bundle:
    return kedge.ray.fit(str(folder), COLUMNS, support=SUPPORT)


def test_the_bundle_is_the_commands(bundle: Bundle, two: Spaces, tmp_path: pathlib.Path) -> None:
    assert difference(bundle, command.fitted(tmp_path, two, np.arange(ROWS), SUPPORT)) < 1e-5


def test_a_dataset_in_another_order_makes_the_same_bundle(nodes: Cluster, bundle: Bundle, spaces: Spaces) -> None:
    shuffled = np.random.default_rng(1).permutation(ROWS)
    rows = ray.data.from_arrow(table({name: x[shuffled] for name, x in spaces.items()}, shuffled)).repartition(7)
    assert difference(kedge.ray.fit(rows, COLUMNS, id="id", support=SUPPORT), bundle) < 1e-5


def of_numpy(spaces: Spaces) -> ray.data.Dataset:
    return ray.data.range(ROWS).map_batches(
        lambda rows: {"id": rows["id"], **{f"emb_{name}": x[rows["id"]] for name, x in spaces.items()}})


def of_pandas(spaces: Spaces) -> ray.data.Dataset:
    vectors = {f"emb_{name}": list(x) for name, x in spaces.items()}
    return ray.data.from_pandas(pd.DataFrame({"id": range(ROWS), **vectors}))


@pytest.mark.parametrize("make", [of_numpy, of_pandas])
def test_datasets_that_are_made_of_others(nodes: Cluster, bundle: Bundle, spaces: Spaces,
                                          make: Callable[[Spaces], ray.data.Dataset]) -> None:
    rows = make(spaces)
    assert difference(kedge.ray.fit(rows, COLUMNS, support=SUPPORT), bundle) < 1e-5
    mapped = kedge.ray.transform(bundle, rows, space="a", column="emb_a", into="shared")
    result = pa.concat_tables([ray.get(ref) for ref in mapped.select_columns(["id", "shared"]).to_arrow_refs()])
    expected = bundle["a"].transform(spaces["a"])
    assert np.abs(by_id(result, "shared") - expected).max() < 1e-6 * np.abs(expected).max()


def test_blocks_that_were_filtered_and_cut(nodes: Cluster, two: Spaces) -> None:
    rows = ray.data.from_arrow(table(two, np.arange(ROWS))).repartition(4)
    rows = rows.filter(lambda row: row["id"] % 3 > 0).limit(1000).materialize()
    ids = np.array([row["id"] for row in rows.select_columns(["id"]).take_all()])
    whole = kedge.fit({name: x[ids] for name, x in two.items()}, ids=ids, support=SUPPORT)
    assert len(ids) == 1000 and difference(kedge.ray.fit(rows, COLUMNS, support=SUPPORT), whole) < 1e-5


def test_paths_of_the_callers_folder(nodes: Cluster, bundle: Bundle, folder: pathlib.Path, tmp_path: pathlib.Path,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    assert difference(kedge.ray.fit("rows", COLUMNS, support=SUPPORT), bundle) < 1e-5
    kedge.ray.transform(bundle, "rows", space="a", column="emb_a", into="shared", output="out", keep=["id"])
    assert len(list((tmp_path / "out").glob("*.parquet"))) == 5


def test_ids_that_are_texts(nodes: Cluster, two: Spaces, tmp_path: pathlib.Path) -> None:
    ids = [f"item-{n}" for n in range(ROWS)]
    rows = folder_of(tmp_path / "rows", two, pa.array(ids), parts=2)
    ours = kedge.ray.fit(str(rows), COLUMNS, support=SUPPORT)
    assert difference(ours, command.fitted(tmp_path, two, ids, SUPPORT)) < 1e-5


def test_half_precision_and_lists_without_a_size(nodes: Cluster, bundle: Bundle, spaces: Spaces,
                                                 tmp_path: pathlib.Path) -> None:
    half = {name: x.astype(np.float16) for name, x in spaces.items()}
    rows = folder_of(tmp_path / "half", half, np.arange(ROWS), parts=2)
    halved = kedge.ray.fit(str(rows), COLUMNS, support=SUPPORT)
    assert difference(halved, bundle) < 1e-2
    loose = table(half, np.arange(ROWS))
    loose = loose.set_column(1, "emb_a", loose.column("emb_a").cast(pa.list_(pa.float32())))
    assert difference(kedge.ray.fit(ray.data.from_arrow(loose), COLUMNS, support=SUPPORT), halved) < 1e-5


def test_a_map_by_kernel(nodes: Cluster, folder: pathlib.Path, two: Spaces, tmp_path: pathlib.Path) -> None:
    ours = kedge.ray.fit(str(folder), COLUMNS, support=SUPPORT, attach="kernel")
    theirs = command.fitted(tmp_path, two, np.arange(ROWS), SUPPORT, options=["--attach", "kernel"])
    for name, rows in two.items():
        x, y = ours[name].transform(rows), theirs[name].transform(rows)
        assert np.abs(x - y).max() < 1e-3 * np.abs(y).max()


def test_transformed_rows_by_id(nodes: Cluster, bundle: Bundle, folder: pathlib.Path, spaces: Spaces) -> None:
    rows = kedge.ray.transform(bundle, ray.data.read_parquet(str(folder)), space="a", column="emb_a", into="shared")
    result = pa.concat_tables([ray.get(ref) for ref in rows.to_arrow_refs()])
    assert result.column_names == ["id", "emb_a", "emb_b", "emb_c", "shared"]
    expected = bundle["a"].transform(spaces["a"])
    assert np.abs(by_id(result, "shared") - expected).max() < 1e-6 * np.abs(expected).max()


def test_a_folder_becomes_a_folder(nodes: Cluster, bundle: Bundle, folder: pathlib.Path, spaces: Spaces,
                                   tmp_path: pathlib.Path) -> None:
    bundle.save(tmp_path / "shared.kedge")
    result = kedge.ray.transform(tmp_path / "shared.kedge", str(folder), space="b", column="emb_b", into="shared",
                               normalize=True, output=str(tmp_path / "out"), keep=["id"])
    assert sorted(os.listdir(tmp_path / "out")) == ["_kedge.json", *sorted(os.listdir(folder))]
    expected = bundle["b"].transform(spaces["b"], normalize=True)
    found = pa.concat_tables([ray.get(ref) for ref in result.to_arrow_refs()])
    assert found.column_names == ["id", "shared"]
    assert np.abs(by_id(found, "shared") - expected).max() < 1e-6
    with pytest.raises(FileExistsError, match="already has Parquet files.* not of this map"):
        kedge.ray.transform(bundle, str(folder), space="b", column="emb_b", into="shared", output=str(tmp_path / "out"))


def test_translated_rows(nodes: Cluster, bundle: Bundle, folder: pathlib.Path, spaces: Spaces) -> None:
    rows = kedge.ray.translate(bundle, ray.data.read_parquet(str(folder)), source="a", target="b", column="emb_a",
                               into="as_b")
    result = pa.concat_tables([ray.get(ref) for ref in rows.to_arrow_refs()])
    expected = bundle.translator("a", "b").transform(spaces["a"])
    assert np.abs(by_id(result, "as_b") - expected).max() < 1e-6 * np.abs(expected).max()


def test_an_encoder_is_attached(nodes: Cluster, bundle: Bundle, folder: pathlib.Path, spaces: Spaces) -> None:
    attached = kedge.ray.attach(bundle, str(folder), {"c": "emb_c"})
    assert "c" in attached.spaces and "c" not in bundle.spaces
    found = kedge.compare(attached["a"].transform(spaces["a"][:200]), attached["c"].transform(spaces["c"][:200]))
    assert found["recall@1"] > .5  # chance is .005


def test_rows_that_are_missing_at_attach_are_named(nodes: Cluster, bundle: Bundle, spaces: Spaces,
                                                   tmp_path: pathlib.Path) -> None:
    rows = folder_of(tmp_path / "few", {"c": spaces["c"][:100]}, np.arange(100), parts=1)
    with pytest.raises(ValueError, match=rf"'c': \d+ of {SUPPORT} support rows are missing, with the id \d+"):
        kedge.ray.attach(bundle, str(rows), {"c": "emb_c"})


def test_learning_from_a_sample(nodes: Cluster, folder: pathlib.Path, two: Spaces) -> None:
    ours = kedge.ray.fit(str(folder), COLUMNS, support=SUPPORT, sample=1000, method="param", epochs=5, anchors=20)
    assert ours.method == "param" and len(ours.support_ids) == SUPPORT
    found = kedge.compare(ours["a"].transform(two["a"][:200]), ours["b"].transform(two["b"][:200]))
    assert found["recall@1"] > .1  # five epochs; chance is .005


def test_an_unseen_encoder_is_estimated(nodes: Cluster, folder: pathlib.Path) -> None:
    scores = kedge.ray.validate(str(folder), {**COLUMNS, "c": "emb_c"}, sample=1000, support=300)
    assert list(scores["held_out"]) == ["a", "b", "c"] and (scores["recall@1"] > .5).all()


def test_progress_counts_rows(nodes: Cluster, folder: pathlib.Path) -> None:
    seen = []
    kedge.ray.fit(str(folder), COLUMNS, support=SUPPORT, progress=lambda *reported: seen.append(reported))
    assert seen[-1][:3] == ("summing up rows", ROWS, ROWS)
    assert all(re.match(r"[\d,]+ rows/s", reported[3]) for reported in seen)
    assert [reported[1] for reported in seen] == sorted(reported[1] for reported in seen)
