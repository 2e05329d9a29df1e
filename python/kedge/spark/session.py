# SPDX-License-Identifier: Apache-2.0
"""The user's Spark session: what it allows, and what went wrong in its tasks."""
from __future__ import annotations

import builtins
import os
import re
from typing import TYPE_CHECKING

import pyspark
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from .._arrow import ReadError
from .._progress import ShowProgress
from .._typing import Path
from ..parts.storage import LastingError

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from . import connect
    from .jobs import Jobs

TASKS_PER_CORE = 4  # so that a slow one does not keep the others waiting, and one that is lost is small
TASKS_UNKNOWN = 400  # if executors come and go
CORES_AT_MOST = 100_000  # numbers that Spark divides by its cores
LARGEST_VALUE = 2**31 - 1  # bytes of what a task can give back
DEFAULT_MEMORY = "1g"  # of spark.driver.memory, and of spark.driver.maxResultSize
OF_DATA = (ValueError, TypeError, MemoryError, OSError, FileNotFoundError, FileExistsError, PermissionError,
           NotADirectoryError, IsADirectoryError)  # but not of connections, which break when a process ends


def is_path(given: object) -> TypeIs[Path]:
    return isinstance(given, (str, os.PathLike))


def session_of(given: DataFrame | Path) -> SparkSession:
    """The session of a DataFrame; for a path the one that is active."""
    if not is_path(given) and not isinstance(given, DataFrame) and not is_connect(given):
        raise TypeError(f"expected a DataFrame or the path of a folder of Parquet files, found {type(given).__name__}")
    spark = SparkSession.getActiveSession() if is_path(given) else given.sparkSession
    if spark is None:
        raise RuntimeError("there is no Spark session, on which the files would be read; make one with "
                           "SparkSession.builder.getOrCreate()")
    if is_connect(spark) and pyspark.__version__.startswith("3."):
        raise RuntimeError("kedge.spark runs in sessions of Spark Connect from Spark 4 on, and this is Spark "
                           f"{pyspark.__version__}; run it in the driver, as spark-submit does")
    return spark


def is_connect(given: object) -> bool:
    """Whether a session, or a DataFrame, is of Spark Connect, which has no SparkContext: only jobs.py asks for one."""
    return type(given).__module__.startswith("pyspark.sql.connect")


def jobs_of(spark: SparkSession, name: str, progress: ShowProgress) -> Jobs | connect.Jobs:
    """What runs the steps of one call."""
    if is_connect(spark):
        from . import connect

        return connect.Jobs(spark, name, progress)
    from .jobs import Jobs  # which needs py4j

    return Jobs(spark, name, progress)


def setting(spark: SparkSession, name: str, default: str) -> str:
    return spark.conf.get(name, default) or default


def partition() -> int:
    """The number of the task that this worker runs."""
    context = TaskContext.get()
    assert context is not None, "only tasks have a partition"
    return context.partitionId()


def task_cpus(spark: SparkSession) -> int:
    return int(setting(spark, "spark.task.cpus", "1"))


def wait_for_workers(spark: SparkSession) -> None:
    """A new session does not know yet how many cores it will have; its first job waits for them."""
    spark.range(1).count()


def tasks_at_most(spark: SparkSession) -> int:
    """Into how many tasks to put a sum: each has a partial to be merged."""
    if setting(spark, "spark.dynamicAllocation.enabled", "false") == "true":
        return TASKS_UNKNOWN
    return TASKS_PER_CORE * spark.range(CORES_AT_MOST).selectExpr("spark_partition_id()").distinct().count()


def result_room(spark: SparkSession) -> list[tuple[int, str]]:
    """Bytes that a job may bring to the driver, and the setting that says so."""
    limit = bytes_of(setting(spark, "spark.driver.maxResultSize", DEFAULT_MEMORY))
    memory = bytes_of(setting(spark, "spark.driver.memory", DEFAULT_MEMORY), 2**20)
    return [(limit or LARGEST_VALUE, "spark.driver.maxResultSize"), (memory // 2, "half of the driver's memory"),
            (LARGEST_VALUE, "a value of Spark")]


def bytes_of(text: str, unit: int = 1) -> int:
    """What a setting such as 512m means. A number alone is of this unit."""
    found = re.fullmatch(r"\s*(\d+)\s*([kmgtp]?)b?\s*", text.lower())
    if found is None:
        raise ValueError(f"a setting of Spark is no size in bytes, such as 512m: '{text}'")
    number, letter = found.groups()
    return int(number) * (1024 ** ("kmgtp".index(letter) + 1) if letter else 1 if "b" in text.lower() else unit)


def plain(error: Exception) -> Exception:
    """What kedge refused on a worker, as the exception it raised there; anything else, such as an error in a function
    of the user's, as it is."""
    text = str(getattr(error, "java_exception", None) or "") + "\n" + str(error)
    if re.search(r"ModuleNotFoundError: No module named 'kedge", text):
        return ImportError("the workers of this Spark cluster cannot import kedge; pip install kedge in the Python "
                           "that spark.pyspark.python names there")
    frames = re.findall(r'^ *File "(.+)", line', text, re.MULTILINE)
    if frames and not any(re.search(r"[/\\]kedge[/\\](parts|spark)[/\\]", frame) for frame in frames):
        return error  # of what the user's rows come from
    found = re.findall(r"^([\w.]*(?:Error|RepeatedId)): (.+)$", text, re.MULTILINE)
    ours = [kind(sentence.strip()) for name, sentence in found if (kind := kind_of(name)) is not None]
    return ours[0] if ours else error


def kind_of(name: str) -> type[Exception] | None:
    """The exceptions that kedge raises of a user's data, by the name a traceback shows."""
    for kind in (ReadError, LastingError):
        if name == f"{kind.__module__}.{kind.__name__}":
            return kind
    if name.startswith("kedge."):
        return ValueError
    built_in = getattr(builtins, name, None)
    return built_in if built_in in OF_DATA else None
