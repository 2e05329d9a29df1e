# SPDX-License-Identifier: Apache-2.0
"""How far a job is: for the caller, and on Spark's own pages."""
from __future__ import annotations

import pathlib
import re
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from conftest import ROWS
from made_up import COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long

OPTIONS: dict[str, Any] = {"support": 100, "anchors": 5}


@pytest.fixture(scope="module")
def module(spark: SparkSession) -> ModuleType:
    import kedge.spark

    return kedge.spark


def descriptions(spark: SparkSession) -> set[str]:
    """Of all jobs so far, as the pages of the session list them."""
    jobs = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    found = [jobs.apply(number).description() for number in range(jobs.size())]
    return {text.get() for text in found if text.isDefined()}


@pytest.mark.parametrize("source", ["frame", "folder"])
def test_a_function_hears_of_rows(module: ModuleType, request: pytest.FixtureRequest, source: str) -> None:
    heard = []
    module.fit(request.getfixturevalue(source), COLUMNS, progress=lambda *words: heard.append(words), **OPTIONS)
    assert {step for step, *_ in heard} == {"summing up rows"}
    done = [done for _, done, _, _ in heard]
    assert done == sorted(done) and done[-1] == ROWS == heard[-1][2]
    assert len(set(heard)) == len(heard)
    assert all(done <= total and re.match(r"[\d,]+ rows/s", detail) for _, done, total, detail in heard)
    assert all(detail.endswith(" s left") for _, done, total, detail in heard if done < total)


def test_true_shows_a_bar(module: ModuleType, folder: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    module.fit(folder, COLUMNS, progress=True, **OPTIONS)
    shown = capsys.readouterr().err
    assert "summing up rows" in shown and "3.00k/3.00k" in shown


def test_a_function_may_stop_the_work(module: ModuleType, folder: pathlib.Path) -> None:
    def stop(step: str, done: int, total: int, detail: str) -> None:
        raise InterruptedError("enough")

    with pytest.raises(InterruptedError, match="^enough$"):
        module.fit(folder, COLUMNS, progress=stop, **OPTIONS)


def test_jobs_have_names_and_the_users_come_back(spark: SparkSession, module: ModuleType, frame: DataFrame) -> None:
    spark.sparkContext.setJobGroup("mine", "what I do")
    module.fit(frame, COLUMNS, **OPTIONS)
    assert {"kedge: fit: looking at the columns", "kedge: fit: summing up rows"} <= descriptions(spark)
    assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") == "mine"
    assert spark.sparkContext.getLocalProperty("spark.job.description") == "what I do"
