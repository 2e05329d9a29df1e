#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Maps a folder of Parquet files into the shared space with Spark; fits the bundle first, unless it is given.

    experiments/cluster/spark_folder.py /mnt/embeddings /mnt/shared \\
        --columns vit=emb_vit rex=emb_rex --support 5000 --save shared.kedge --master spark://host:7077

OUTPUT/SPACE has the files of the folder, with the id and the column of results. Local files appear when they are whole.
--master is what Spark calls so; without it, this machine is the cluster: local[WORKERS]. Other settings come as with
any program of Spark's, from spark-defaults.conf or spark-submit.
Needs '.[spark]' on every machine, and Java 17. The last line says how long it took, and what memory the Python
workers of this machine took.
"""
import argparse
import os
import sys
from typing import Any

import folders
import kedge.spark
from pyspark.sql import SparkSession


def session(asked: argparse.Namespace) -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("kedge").master(asked.master or f"local[{asked.workers}]")
    # Its bar counts tasks, that of kedge rows; two on one line cannot be read.
    return builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()


def main() -> None:
    asked = folders.parser(__doc__).parse_args()
    spark = session(asked)
    try:
        folders.work(asked, kedge.spark, "spark", folders.SPARK_WORKERS)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
