# SPDX-License-Identifier: Apache-2.0
"""A Spark standalone cluster on loopback, of one master and two workers, and sessions on it."""
from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from processes import descendants

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = 600  # to start
SECONDS_TO_END = 300
HERE = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # processes that live for seconds start faster so


def require() -> None:
    """Skips a test, and says why, if there is no Spark or no Java."""
    pytest.importorskip("pyspark", reason="needs pyspark: pip install '.[spark]'")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java 17 or later, and there is no 'java' on the path")


class Cluster:
    """Its processes are children of this one, and end with it."""

    pythons = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}

    def __init__(self, folder: pathlib.Path, workers: int = 2) -> None:
        import pyspark

        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self.home = os.path.dirname(pyspark.__file__)
        try:
            log = self.start("master", "master.Master", *HERE)
            self.url = said(log, r"Starting Spark master at (spark://\S+)")
            logs = [self.start(f"worker-{i}", "worker.Worker", *HERE, "--cores", "1", "--memory", "2g", "--work-dir",
                               str(folder / f"work-{i}"), self.url) for i in range(workers)]
            for log in logs:
                said(log, r"Successfully registered with (master)")
        except BaseException:
            self.stop()
            raise

    def start(self, name: str, program: str, *words: str) -> pathlib.Path:
        log = self.folder / f"{name}.log"
        environment = {**os.environ, **self.pythons, "SPARK_HOME": self.home, "SPARK_LOCAL_IP": "127.0.0.1",
                       "SPARK_DAEMON_MEMORY": "1g", "SPARK_DAEMON_JAVA_OPTS": JAVA}
        command = [f"{self.home}/bin/spark-class", f"org.apache.spark.deploy.{program}", *words]
        with open(log, "wb") as file:
            self.processes.append(subprocess.Popen(command, env=environment, stdout=file, stderr=file, cwd=self.folder))
        return log

    def connect_server(self) -> str:
        """The address of a driver that sessions of Spark Connect share."""
        settings = {**self.settings(), "spark.connect.grpc.binding.port": 0, "spark.log.level": "INFO"}
        words = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
        log = self.start("connect", "SparkSubmit", "--master", self.url, *words, "--class",
                         "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
        return "sc://127.0.0.1:" + said(log, r"Spark Connect server started at: \S+:(\d+)")

    def stop(self) -> None:
        """Returns when all that it has started is gone."""
        started = [pid for pid, _, _ in self.descendants()]
        for process in reversed(self.processes):  # workers first, which end their executors
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(SECONDS_TO_END)
        until = time.monotonic() + SECONDS_TO_END
        while any(os.path.exists(f"/proc/{pid}") for pid in started) and time.monotonic() < until:
            time.sleep(0.1)
        for pid in started:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self.processes:
            process.wait()

    def executors(self) -> list[int]:
        """Processes of executors; workers start another one for each that ends."""
        return [pid for pid, _, words in self.descendants() if "CoarseGrainedExecutorBackend" in words]

    def python_workers(self) -> list[int]:
        """Processes that run Python for tasks: the forks of a daemon that every executor has."""
        found = self.descendants()
        daemons = {pid for pid, _, words in found if "pyspark.daemon" in words}
        return [pid for pid, parent, _ in found if parent in daemons]

    def descendants(self) -> list[tuple[int, int, str]]:
        """(process, parent, command line) of all that the cluster has started."""
        return descendants(process.pid for process in self.processes)

    def session(self, **settings: object) -> SparkSession:
        """The driver is this process; a session that runs is stopped before another one can have other settings."""
        from pyspark.sql import SparkSession

        os.environ.update(self.pythons, SPARK_LOCAL_IP="127.0.0.1")
        builder = SparkSession.builder.master(self.url).appName("kedge")
        for key, value in {**self.settings(), **settings}.items():
            builder = builder.config(key, str(value))
        return builder.getOrCreate()

    def settings(self) -> dict[str, object]:
        import kedge

        return {
            "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF",
            "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": JAVA, "spark.executor.extraJavaOptions": JAVA,
            "spark.executor.memory": "1g", "spark.sql.shuffle.partitions": "4", "spark.task.maxFailures": "2",
            "spark.local.dir": self.folder / "local", "spark.sql.warehouse.dir": self.folder / "warehouse",
            "spark.executorEnv.PYTHONDONTWRITEBYTECODE": "1", "spark.executorEnv.OMP_NUM_THREADS": "1",
            "spark.executorEnv.PYTHONPATH": os.path.dirname(os.path.dirname(kedge.__file__)),
        }

    def end(self, session: SparkSession) -> None:
        """Also of the driver's JVM, which would otherwise live a little longer than this process."""
        from pyspark import SparkContext

        gateway = session.sparkContext._gateway
        assert gateway is not None
        session.stop()
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(SECONDS_TO_END)
        SparkContext._gateway = SparkContext._jvm = None


def said(log: pathlib.Path, pattern: str) -> str:
    """What a process wrote to its log, once it did."""
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    raise RuntimeError(f"Spark did not start within {SECONDS} s: {log.read_text(errors='replace')[-2000:]}")
