#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Maps a folder of Parquet files into the shared space with Ray; fits the bundle first, unless it is given.

    experiments/cluster/ray_folder.py s3://bucket/embeddings s3://bucket/shared \\
        --columns vit=emb_vit rex=emb_rex --support 5000 --save shared.kedge --master auto

OUTPUT/SPACE has the files of the folder, with the id and the column of results. Local files appear when they are whole.
--master is the address of a Ray cluster ('auto' on one of its machines); without it, this machine is the cluster.
Needs '.[ray]' on every machine. The last line says how long it took, and what memory workers of this machine took.
"""
import folders
import kedge.ray
import ray


def main() -> None:
    asked = folders.parser(__doc__).parse_args()
    if asked.master:
        ray.init(address=asked.master)
    else:  # 'local', or Ray would join a cluster that already runs on this machine
        ray.init(address="local", num_cpus=asked.workers, include_dashboard=False)
    folders.work(asked, kedge.ray, "ray", folders.RAY_WORKERS)


if __name__ == "__main__":
    main()
