# SPDX-License-Identifier: Apache-2.0
"""Jobs of a session of Spark Connect. It has no accumulators, which would count rows, but says how many tasks are done;
and it has a tag in place of a job's group and name."""
from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Iterator

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.connect.shell.progress import ProgressHandler, StageInfo
from tqdm.auto import tqdm

from .._progress import RowProgress, ShowProgress
from .session import plain


class Jobs:
    """Runs the steps of one call."""

    def __init__(self, spark: SparkSession, name: str, progress: ShowProgress) -> None:
        self.spark, self.name, self.progress = spark, name, progress

    @contextlib.contextmanager
    def running(self, step: str, rows: int | None = None, counted: bool = True) -> Iterator[None]:
        """Gives a job a tag of its own, by which it ends if the caller is interrupted. Progress is in percent."""
        tag = f"{self.name}: {step} {uuid.uuid4()}".replace(",", "")
        report = Report(step, self.progress) if self.progress and counted else None
        self.spark.addTag(tag)
        if report is not None:
            self.spark.registerProgressHandler(report)
        try:
            yield
            if report is not None:
                report.show(100)
        except PySparkException as error:
            raise plain(error) from None
        except BaseException:  # an interrupt, or what the caller's function raised
            self.spark.interruptTag(tag)
            raise
        finally:
            self.spark.removeTag(tag)
            if report is not None:
                self.spark.removeProgressHandler(report)
                report.progress.close()


class Report(ProgressHandler):
    """Hears how many tasks there are and how many are done, in the caller's thread."""

    def __init__(self, step: str, progress: ShowProgress) -> None:
        self.progress = RowProgress(step, 100, progress if callable(progress) else True, lambda step, total:
                                    tqdm(desc=step, total=total, unit="%"), unit="%")

    def __call__(self, stages: Iterable[StageInfo] | None, inflight_tasks: int, operation_id: str | None,
                 done: bool) -> None:
        stages = list(stages or ())
        tasks = sum(stage.num_tasks for stage in stages)
        if tasks and not done:
            self.show(99 * sum(stage.num_completed_tasks for stage in stages) // tasks)

    def show(self, percent: int) -> None:
        """Never less than before, as stages that are to come are not known yet."""
        if percent > self.progress.done:
            self.progress.advance(percent - self.progress.done)
