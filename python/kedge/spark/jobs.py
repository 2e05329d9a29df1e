# SPDX-License-Identifier: Apache-2.0
"""Jobs as Spark's pages show them, and how far they are: by the SparkContext of the driver."""
from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from types import TracebackType

from py4j.protocol import Py4JJavaError
from pyspark import Accumulator, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tqdm.auto import tqdm

from .._progress import RowProgress, ShowProgress
from .session import plain

SECONDS = 0.5  # between looks at what is done
PROPERTIES = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


class Jobs:
    """Runs the steps of one call."""

    def __init__(self, spark: SparkSession, name: str, progress: ShowProgress) -> None:
        self.context, self.name, self.progress = spark.sparkContext, name, progress

    @contextlib.contextmanager
    def running(self, step: str, rows: int | None = None, counted: bool = True) -> Iterator[Accumulator[int] | None]:
        """Makes jobs a group of this name, which ends if the caller is interrupted. Gives what counts rows, or None.

        'rows' is how many there are, None if that is not known.
        """
        before = {key: self.context.getLocalProperty(key) for key in PROPERTIES}
        group = f"kedge-{uuid.uuid4()}"
        self.context.setJobGroup(group, f"{self.name}: {step}", interruptOnCancel=True)
        report: Report | Silent = Silent()
        if self.progress and counted:
            report = Report(step, rows, self.progress, self.context, group)
        try:
            with report:
                yield report.done
        except KeyboardInterrupt:
            self.context.cancelJobGroup(group)
            raise
        except (PySparkException, Py4JJavaError) as error:
            raise report.failed or plain(error) from None
        finally:
            for key, value in before.items():
                self.context.setLocalProperty(key, value)  # type: ignore[arg-type]  # None takes it away


class Silent(contextlib.nullcontext[None]):
    done, failed = None, None


class Report:
    """Looks from time to time at the rows that finished tasks have counted, in a thread of its own."""

    def __init__(self, step: str, rows: int | None, progress: ShowProgress, context: SparkContext, group: str) -> None:
        self.rows, self.context, self.group, self.done = rows, context, group, context.accumulator(0)
        self.progress = RowProgress(step, rows, progress if callable(progress) else True, lambda step, total:
                                    tqdm(desc=step, total=total, unit=" rows", unit_scale=True))
        self.shown, self.over = (0, 0), threading.Event()
        self.failed: Exception | None = None
        self.thread = threading.Thread(target=self.look, daemon=True)

    def __enter__(self) -> None:
        self.thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.over.set()
        self.thread.join()
        if kind is None and self.failed is None:
            self.show(self.done.value, self.done.value)
        self.progress.close()
        if kind is None and self.failed is not None:
            raise self.failed

    def look(self) -> None:
        while not self.over.wait(SECONDS):
            try:
                done = self.done.value
                self.show(done, self.rows or self.expected(done))
            except Exception as error:  # of the caller's function, which the caller is to see
                self.failed = error
                self.context.cancelJobGroup(self.group)
                return

    def expected(self, done: int) -> int:
        """How many rows there will be, if the tasks to come are like those that are done."""
        tracker = self.context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self.group)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        at_work = [stage for stage in stages if stage is not None and stage.numActiveTasks and stage.numCompletedTasks]
        if not at_work:
            return done
        stage = max(at_work, key=lambda stage: stage.stageId)
        return done * stage.numTasks // stage.numCompletedTasks

    def show(self, done: int, total: int) -> None:
        """Rows of tasks that were run again are not counted twice beyond what there is. A total that was a guess may
        be corrected."""
        done = min(done, total)
        if done == 0 or done < self.shown[0] or (done, total) == self.shown:
            return
        self.shown = done, total
        self.progress.expect(total)
        self.progress.advance(done - self.progress.done)
