# SPDX-License-Identifier: Apache-2.0
"""kedge.spark on a real cluster of two workers: the command's bundle, and what its maps make."""
from __future__ import annotations

import copy
import os
import pathlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

import command
import kedge
import numpy as np
import pyarrow.parquet as pq
import pytest
from conftest import ROWS
from kedge import Bundle
from made_up import COLUMNS, Spaces, by_id, difference, folder_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long

SUPPORT = 400


@pytest.fixture(scope="module", autouse=True)
def module(spark: SparkSession) -> ModuleType:
    import kedge.spark

    return kedge.spark


@pytest.fixture(scope="module")
def bundle(module: ModuleType, frame: DataFrame) -> Bundle:
    fitted: Bundle = module.fit(frame, COLUMNS, support=SUPPORT)
    return fitted


def assert_near(found: np.ndarray, expected: np.ndarray, share: float = 1e-6) -> None:
    assert np.abs(found - expected).max() < share * np.abs(expected).max()


def test_the_bundle_is_the_commands(bundle: Bundle, two: Spaces, tmp_path: pathlib.Path) -> None:
    assert difference(bundle, command.fitted(tmp_path, two, np.arange(ROWS), SUPPORT)) < 1e-5


def test_a_folder_makes_the_same_bundle(module: ModuleType, bundle: Bundle, folder: pathlib.Path) -> None:
    assert difference(module.fit(str(folder), COLUMNS, support=SUPPORT), bundle) < 1e-5


def test_paths_of_the_callers_folder(module: ModuleType, bundle: Bundle, folder: pathlib.Path, tmp_path: pathlib.Path,
                                     monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "rows").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    assert difference(module.fit("rows", COLUMNS, support=SUPPORT), bundle) < 1e-5
    output = module.transform(bundle, "rows", space="a", column="emb_a", into="shared", output="out", keep=["id"])
    assert output == str(tmp_path / "out") and pq.read_table(output).num_rows == ROWS


def test_one_machine_makes_the_same_bundle(bundle: Bundle, two: Spaces) -> None:
    assert difference(bundle, kedge.fit(two, ids=np.arange(ROWS), support=SUPPORT)) < 1e-5


def test_partitions_and_order_do_not_matter(module: ModuleType, bundle: Bundle, frame: DataFrame) -> None:
    assert difference(module.fit(frame.orderBy("emb_a").coalesce(1), COLUMNS, support=SUPPORT), bundle) < 1e-5


def test_another_seed_draws_another_support(module: ModuleType, bundle: Bundle, folder: pathlib.Path,
                                            two: Spaces) -> None:
    other = module.fit(str(folder), COLUMNS, support=SUPPORT, seed=5)
    assert set(other.support_ids) != set(bundle.support_ids)
    assert difference(other, kedge.fit(two, ids=np.arange(ROWS), support=SUPPORT, seed=5)) < 1e-5


def test_ids_that_are_texts_and_arrays_of_double(module: ModuleType, frame: DataFrame, two: Spaces,
                                                 tmp_path: pathlib.Path) -> None:
    rows = frame.selectExpr("concat('item-', id) as `the.name`", "cast(emb_a as array<double>) as emb_a", "emb_b")
    ours = module.fit(rows, COLUMNS, "the.name", support=SUPPORT)
    assert difference(ours, command.fitted(tmp_path, two, [f"item-{n}" for n in range(ROWS)], SUPPORT)) < 1e-5
    result = module.transform(ours, rows, space="a", column="emb_a", into="shared.rows")
    assert result.columns == ["the.name", "emb_a", "emb_b", "shared.rows"] and result.count() == ROWS


def test_half_precision_is_read_from_folders(spark: SparkSession, module: ModuleType, two: Spaces,
                                             tmp_path: pathlib.Path) -> None:
    half = {name: rows.astype(np.float16) for name, rows in two.items()}
    rows = folder_of(tmp_path / "half", half, np.arange(ROWS), parts=2)
    assert difference(module.fit(str(rows), COLUMNS, support=SUPPORT), kedge.fit(half, ids=np.arange(ROWS),
                                                                                 support=SUPPORT)) < 1e-5
    with pytest.raises(Exception, match="FLOAT16|CANNOT_READ_FILE_FOOTER"):  # once it does, the documents should say so
        spark.read.parquet(str(rows))


def test_an_encoder_is_attached(module: ModuleType, bundle: Bundle, frame: DataFrame, folder: pathlib.Path,
                                spaces: Spaces) -> None:
    attached = module.attach(bundle, frame, {"c": "emb_c"})
    assert "c" in attached.spaces and "c" not in bundle.spaces
    expected = copy.copy(bundle)
    expected.attach("c", moments=kedge.Moments({"c": spaces["c"]}, ids=np.arange(ROWS), support=bundle.support_ids))
    assert difference(attached, expected) < 1e-5
    assert difference(module.attach(bundle, str(folder), {"c": "emb_c"}), expected) < 1e-5


def test_transformed_rows_by_id(module: ModuleType, bundle: Bundle, frame: DataFrame, spaces: Spaces) -> None:
    from kedge.spark import source

    result = module.transform(bundle, frame, space="a", column="emb_a", into="shared")
    assert result.columns == ["id", "emb_a", "emb_b", "emb_c", "shared"]
    assert result.schema["shared"].dataType.simpleString() == "array<float>"
    result = source.table_of(result)
    assert_near(by_id(result, "shared"), bundle["a"].transform(spaces["a"]))
    np.testing.assert_array_equal(by_id(result, "emb_b"), spaces["b"])


def test_results_may_take_the_place_of_the_vectors(module: ModuleType, bundle: Bundle, frame: DataFrame,
                                                   spaces: Spaces) -> None:
    from kedge.spark import source

    result = module.transform(bundle, frame, space="a", column="emb_a", into="emb_a", normalize=True)
    assert result.columns == frame.columns
    assert_near(by_id(source.table_of(result), "emb_a"), bundle["a"].transform(spaces["a"], normalize=True))


def test_translated_rows(module: ModuleType, bundle: Bundle, frame: DataFrame, spaces: Spaces) -> None:
    from kedge.spark import source

    result = module.translate(bundle, frame, source="a", target="b", column="emb_a", into="as_b")
    assert_near(by_id(source.table_of(result), "as_b"), bundle.translator("a", "b").transform(spaces["a"]))


def test_a_folder_becomes_a_folder(spark: SparkSession, module: ModuleType, bundle: Bundle, folder: pathlib.Path,
                                   spaces: Spaces, tmp_path: pathlib.Path) -> None:
    bundle.save(tmp_path / "shared.kedge")
    output = module.transform(tmp_path / "shared.kedge", folder, space="b", column="emb_b", into="shared",
                              output=tmp_path / "out", keep=["id"])
    assert output == str(tmp_path / "out")
    assert sorted(os.listdir(tmp_path / "out")) == ["_kedge.json", *sorted(os.listdir(folder))]
    result = pq.read_table(output)
    assert result.column_names == ["id", "shared"]
    np.testing.assert_array_equal(result.column("id").to_numpy(), np.arange(ROWS))
    assert_near(by_id(result, "shared"), bundle["b"].transform(spaces["b"]))
    assert spark.read.parquet(output).count() == ROWS


def test_learning_from_a_sample(module: ModuleType, frame: DataFrame, two: Spaces) -> None:
    options = {"support": SUPPORT, "method": "param", "epochs": 3, "anchors": 20}
    ours = module.fit(frame, COLUMNS, sample=1000, **options)
    assert ours.method == "param" and len(ours.support_ids) == SUPPORT
    whole = module.fit(frame, COLUMNS, sample=10 * ROWS, **options)
    np.testing.assert_array_equal(ours.support_ids, whole.support_ids)
    assert not np.allclose(ours.mixture, whole.mixture)  # it did not learn from all rows


def test_an_unseen_encoder_is_estimated(module: ModuleType, frame: DataFrame) -> None:
    scores = module.validate(frame, {**COLUMNS, "c": "emb_c"}, sample=1000, support=300)
    assert list(scores["held_out"]) == ["a", "b", "c"] and (scores["recall@1"] > .5).all()


def test_partials_travel_in_chunks(spark: SparkSession, module: ModuleType, tmp_path: pathlib.Path) -> None:
    """Those of wide spaces are larger than a row of Spark should be."""
    from kedge.spark import sums, tree

    rows, dim = 40, 1600
    assert 8 * dim**2 > tree.CHUNK_BYTES
    wide = {"wide": np.random.default_rng(2).normal(size=(rows, dim)).astype(np.float32)}
    folder = folder_of(tmp_path / "wide", wide, np.arange(rows), parts=3)
    total = sums.total(folder, {"wide": "emb_wide"}, "id", 20, 0, "test", False)
    assert total is not None and total.rows == rows
    expected = np.cov(wide["wide"].astype(np.float64), rowvar=False, bias=True)
    assert_near(total.moments.covariance("wide"), expected, 1e-5)
    np.testing.assert_array_equal(total.moments.support("wide"), wide["wide"][total.moments.support_ids])


def test_a_chunk_that_is_missing_is_noticed(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    from kedge.spark import tree

    monkeypatch.setattr(tree, "CHUNK_BYTES", 10)
    partial: Any = list(range(100))
    batches = list(tree.chunks_of(partial, 0))
    assert list(tree.partials_of(batches)) == [partial]
    with pytest.raises(RuntimeError, match="incomplete"):
        list(tree.partials_of(batches[:-1]))
