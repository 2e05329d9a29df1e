# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks have in common: ratios to peers go into one file, and the file becomes one table.

    bench/record.py build/bench/ratios.jsonl -o bench/results/cpu.md
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import time
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]


def ratios(work: str, peer: str, ours: list[float], theirs: list[float]) -> None:
    """Notes the seconds of all rounds, one of ours for each of theirs, in the file KEDGE_BENCH_RATIOS if there is
    one."""
    path = os.environ.get("KEDGE_BENCH_RATIOS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"work": work, "peer": peer, "kedge_s": ours, "peer_s": theirs}) + "\n")


def machine() -> str:
    """Processor, cores, commit and date, in words."""
    try:
        said = subprocess.run(["lscpu"], capture_output=True, text=True, check=True,
                              env={**os.environ, "LC_ALL": "C"}).stdout
        model = next(line.split(":")[1].strip() for line in said.splitlines() if line.startswith("Model name"))
    except (OSError, subprocess.SubprocessError, StopIteration):
        model = platform.machine()
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True,
                            check=False).stdout.strip() or "unknown"
    return f"{model}, {len(os.sched_getaffinity(0))} cores, commit {commit}, {time.strftime('%Y-%m-%d')}"


def table(lines: list[dict[str, Any]]) -> list[str]:
    out = ["| work | peer | kedge | peer | kedge / peer | rounds |", "|---|---|---:|---:|---:|---:|"]
    for line in lines:
        each = [a / b for a, b in zip(line["kedge_s"], line["peer_s"])]
        ours, theirs = (statistics.median(line[key]) for key in ("kedge_s", "peer_s"))
        out.append(f"| {line['work']} | {line['peer']} | {ours:.3g} s | {theirs:.3g} s | {statistics.median(each):.2f} "
                   f"| {min(each):.2f} to {max(each):.2f} |")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ratios", type=pathlib.Path, help="file that the benchmarks wrote")
    parser.add_argument("-o", "--out", type=pathlib.Path, help="file for the table; it is printed too")
    asked = parser.parse_args()
    lines = [json.loads(line) for line in asked.ratios.read_text().splitlines()]
    text = "\n".join(["# Against peers, on the processor", "",
                      f"Made by `make bench`: {machine()}. Both sides ran in turn; "
                      "seconds are medians, below 1 kedge is faster.", "", *table(lines)]) + "\n"
    print(text, end="")
    if asked.out:
        asked.out.write_text(text)


if __name__ == "__main__":
    main()
