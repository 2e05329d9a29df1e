#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes gpu.json, gpu.md and a short table of what scripts/gpu measured: gpu_table.py FOUND OUT [--commit NAME]

FOUND holds what the check and the benchmarks printed; what is missing is shown as '-'. Writes both files of OUT
or neither.
"""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

MODES = {"eager": "PyTorch eager", "compile": "PyTorch torch.compile", "graph": "PyTorch eager in a CUDA graph"}
SUPPORTS = (5000, 50000)
CHECKS = {"check": "every operation, and training", "tests": "the tests that need a GPU",
          "memcheck": "compute-sanitizer memcheck", "racecheck": "compute-sanitizer racecheck"}


class Problem(Exception):
    """What is wrong, as a sentence."""


def output_of(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine(commit: str) -> dict[str, str]:
    gpu = [part.strip() for part in output_of("nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                                              "--format=csv,noheader").split("\n")[0].split(",")]
    processor = re.search(r"Model name:\s*(.*)", output_of("lscpu"))
    cuda = re.search(r"release ([\d.]+)", output_of("nvcc", "--version"))
    if not commit:
        commit = output_of("git", "rev-parse", "--short=12", "HEAD")
        if commit and output_of("git", "status", "--porcelain"):
            commit += " with changes"
    return {"gpu": gpu[0] or "unknown", "driver": gpu[1] if len(gpu) > 1 else "unknown",
            "gpu_memory": gpu[2] if len(gpu) > 2 else "unknown", "cuda": cuda.group(1) if cuda else "unknown",
            "processor": processor.group(1) if processor else "unknown", "commit": commit or "unknown",
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")}


def at(data: Any, *keys: str | int) -> Any:
    """What is found there, or None."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data


def items(data: Any) -> list[Any]:
    return data if isinstance(data, list) else []


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def cell(value: Any, form: str) -> str:
    return format(value, form) if is_number(value) else "-"


def ratio(above: Any, below: Any) -> float | None:
    return above / below if is_number(above) and is_number(below) and below else None


def read_json(path: pathlib.Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as problem:
        raise Problem(f"{path} is not JSON ({problem}); measure again with 'scripts/gpu bench'") from None


def read_check(path: pathlib.Path) -> dict[str, Any]:
    text, _, code = path.read_text(encoding="utf-8", errors="replace").rpartition("exit ")
    # Of CTest, what failed and the sum are worth keeping; the folder it ran in and each test that passed are not.
    text = re.sub(r"^(Test project .*| *Start +\d+: .*| *\d+/\d+ Test .* Passed .*)\n", "", text, flags=re.M)
    return {"passed": int(code) == 0 if code.strip().isdecimal() else None, "text": text.strip()}


def read(folder: pathlib.Path) -> dict[str, Any]:
    """All that was found, by name; several runs of the same become a list, the fastest first."""
    found = {path.stem: read_json(path) for path in sorted(folder.glob("*.json"))}
    if not found:
        raise Problem(f"nothing was measured: {folder} holds no JSON; 'scripts/gpu bench table' measures first")
    for name in ("fit", "consensus"):
        runs = [found.pop(key) for key in sorted(found) if key.startswith(f"{name}-")]
        runs = [run for run in runs if is_number(at(run, "seconds"))]
        if runs:
            found[name] = sorted(runs, key=lambda run: run["seconds"])
    found["checks"] = {name: read_check(path) for name in CHECKS if (path := folder / f"{name}.txt").exists()}
    return found


def kedge_step(found: dict[str, Any], precision: str, support: int, key: str = "ms_per_step") -> Any:
    for step in items(at(found, "device", "steps")):
        if (at(step, "precision"), at(step, "support")) == (precision, support):
            return at(step, key)
    return None


def peer_step(found: dict[str, Any], mode: str, support: int) -> Any:
    return at(found, f"peer-{mode}-{support}", "ms_per_step")


def step_lines(found: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Title and cells of the table of steps, one column per support."""
    for precision in ("tf32", "bf16", "fp32"):
        yield f"kedge, {precision}", [cell(kedge_step(found, precision, s), ".3f") for s in SUPPORTS]
    for mode, title in MODES.items():
        yield title, [cell(peer_step(found, mode, s), ".3f") for s in SUPPORTS]
    for mode, title in MODES.items():
        ratios = [ratio(peer_step(found, mode, s), kedge_step(found, "tf32", s)) for s in SUPPORTS]
        yield f"{title} / kedge tf32", ["-" if r is None else f"{r:.1f} x" for r in ratios]
    ceiling = at(found, "device", "ceilings", "gemm_tflops", "tf32")
    yield "share of the GEMM ceiling, tf32", [cell(ratio(kedge_step(found, "tf32", s, "tflops"), ceiling), ".0%")
                                              for s in SUPPORTS]


def listed(named: Any, form: str) -> str:
    """The numbers of an object with their names."""
    return ", ".join(f"{name} {cell(value, form)}" for name, value in named.items()) if isinstance(named, dict) else "-"


def other_lines(found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Title and value of everything else."""
    ceilings = at(found, "device", "ceilings")
    yield "measured ceiling of an 8192^3 product, TFLOP/s", listed(at(ceilings, "gemm_tflops"), ".0f")
    yield "copy within the GPU, from pinned memory, GB/s", (
        f"{cell(at(ceilings, 'copy_within_gb_per_s'), '.0f')}, {cell(at(ceilings, 'copy_from_host_gb_per_s'), '.0f')}")
    for name, title in (("fit", "95-epoch fit"), ("consensus", "consensus fit")):
        runs = items(at(found, name))
        middle = runs[len(runs) // 2] if runs else None
        yield f"{title} of 3 x 50,000 rows, files to bundle, s", (
            f"{cell(at(middle, 'seconds'), '.2f')} ({listed(at(middle, 'stages'), '.2f')})" if middle else "-")
    for run in items(at(found, "device", "resident_transform")):
        yield (f"transform of 2,000,000 x 768 in GPU memory, {at(run, 'precision') or '-'}",
               f"{cell(at(run, 'transform_ms'), '.2f')} ms, {cell(at(run, 'share_of_product_rate'), '.2f')} of "
               "cuBLAS's rate")
    file = at(found, "transform")

    def seconds(name: str) -> str:
        return cell(at(file, f"{name}_seconds"), ".2f")

    yield (f"transform of a file of {cell(at(file, 'file_gb'), '.1f')} GB, s",
           f"cuda {seconds('cuda_tf32')} (fp32 {seconds('cuda_fp32')}), processor {seconds('cpu')}; reading alone "
           f"{seconds('read')}, writing alone {seconds('write')}")
    for name, title in CHECKS.items():
        passed = at(found, "checks", name, "passed")
        yield title, "-" if passed is None else "passed" if passed else "FAILED"


def short(found: dict[str, Any], about: dict[str, Any]) -> Iterator[str]:
    yield f"{about['gpu']}, driver {about['driver']}, CUDA {about['cuda']}, commit {about['commit']}"
    yield f"{'PARAM step, ms':<44}" + "".join(f"{'K ' + format(s, ','):>12}" for s in SUPPORTS)
    for title, cells in step_lines(found):
        yield f"{title:<44}" + "".join(f"{text:>12}" for text in cells)
    for title, value in other_lines(found):
        yield f"{title}: {value}"


def markdown(found: dict[str, Any], about: dict[str, Any]) -> Iterator[str]:
    yield "# Measured on a GPU"
    yield ""
    yield "Made by `scripts/gpu`; the numbers themselves, with every round, are in `gpu.json`."
    yield ""
    yield f"- {about['date']}, commit {about['commit']}"
    yield f"- {about['gpu']} ({about['gpu_memory']}), driver {about['driver']}, CUDA {about['cuda']}"
    versions = {str(at(value, "torch") or "-") for key, value in found.items() if key.startswith("peer-")}
    yield f"- {about['processor']}" + (f"; PyTorch {', '.join(sorted(versions))}, TF32 allowed" if versions else "")
    yield ""
    yield "One step of PARAM in milliseconds: spaces 384 + 1280 + 768, 50,000 rows, 300 anchors, batch 1024."
    yield ""
    yield "| | " + " | ".join(f"K {support:,}" for support in SUPPORTS) + " |"
    yield "|---|" + "---:|" * len(SUPPORTS)
    for title, cells in step_lines(found):
        yield f"| {title} | " + " | ".join(cells) + " |"
    yield ""
    yield "| | |"
    yield "|---|---|"
    for title, value in other_lines(found):
        yield f"| {title} | {value} |"
    if "check" in found["checks"]:
        yield ""
        yield "```"
        yield found["checks"]["check"]["text"]
        yield "```"


def write_all(texts: dict[pathlib.Path, str]) -> None:
    """All of these files or none of them, as far as a file system lets us."""
    partial = {path: path.with_name(path.name + ".partial") for path in texts}
    try:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            partial[path].write_text(text + "\n", encoding="utf-8")
        for path in texts:
            os.replace(partial[path], path)
    finally:
        for path in partial.values():
            path.unlink(missing_ok=True)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("found", type=pathlib.Path)
    options.add_argument("out", type=pathlib.Path)
    options.add_argument("--commit", default="")
    chosen = options.parse_args()
    try:
        found, about = read(chosen.found), machine(chosen.commit)
        table = "\n".join(short(found, about))
        write_all({chosen.out / "gpu.json": json.dumps({"machine": about, **found}, indent=1),
                   chosen.out / "gpu.md": "\n".join(markdown(found, about))})
    except Problem as problem:
        sys.exit(f"gpu_table: {problem}")
    except OSError as problem:
        sys.exit(f"gpu_table: cannot read or write '{problem.filename}': {problem.strerror}")
    print(table)


if __name__ == "__main__":
    main()
