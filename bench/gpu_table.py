#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes gpu.json, gpu.md and a short table of what scripts/gpu measured: gpu_table.py FOUND OUT [--commit NAME]

FOUND holds what the check and the benchmarks printed; what is missing there is shown as '-'.
"""
import argparse
import datetime
import json
import pathlib
import re
import subprocess

MODES = {"eager": "PyTorch eager", "compile": "PyTorch torch.compile", "graph": "PyTorch eager in a CUDA graph"}
SUPPORTS = (5000, 50000)
CHECKS = {"check": "every operation, and training", "tests": "the tests that need a GPU",
          "memcheck": "compute-sanitizer memcheck", "racecheck": "compute-sanitizer racecheck"}


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine(commit):
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


def read(folder):
    """All that was found, by name; several runs of the same become a list."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    for name in ("fit", "consensus"):
        runs = [found.pop(key) for key in sorted(found) if key.startswith(f"{name}-")]
        if runs:
            found[name] = sorted(runs, key=lambda run: run["seconds"])
    found["checks"] = {}
    for name in CHECKS:
        path = folder / f"{name}.txt"
        if path.exists():
            text, _, code = path.read_text().rpartition("exit ")
            found["checks"][name] = {"passed": int(code) == 0, "text": text.rstrip()}
    return found


def step_of(found, precision, support):
    steps = found.get("device", {}).get("steps", [])
    return next((s for s in steps if (s["precision"], s["support"]) == (precision, support)), None)


def step_lines(found):
    """Title and cells of the table of steps, one column per support."""
    def cells(value):
        return [value(support) for support in SUPPORTS]

    def kedge(precision):
        def cell(support):
            step = step_of(found, precision, support)
            return f"{step['ms_per_step']:.3f}" if step else "-"
        return cell

    def peer(mode):
        def cell(support):
            step = found.get(f"peer-{mode}-{support}")
            return f"{step['ms_per_step']:.3f}" if step else "-"
        return cell

    def ratio(mode):
        def cell(support):
            step, other = step_of(found, "tf32", support), found.get(f"peer-{mode}-{support}")
            return f"{other['ms_per_step'] / step['ms_per_step']:.1f} x" if step and other else "-"
        return cell

    def share(precision):
        def cell(support):
            step = step_of(found, precision, support)
            if not step:
                return "-"
            return f"{step['tflops'] / found['device']['ceilings']['gemm_tflops'][precision]:.0%}"
        return cell

    for precision in ("tf32", "bf16", "fp32"):
        yield f"kedge, {precision}", cells(kedge(precision))
    for mode, title in MODES.items():
        yield title, cells(peer(mode))
    for mode, title in MODES.items():
        yield f"{title} / kedge tf32", cells(ratio(mode))
    yield "share of the GEMM ceiling, tf32", cells(share("tf32"))


def stages_of(run):
    return ", ".join(f"{name} {seconds:.2f}" for name, seconds in run["stages"].items())


def other_lines(found):
    """Title and value of everything else."""
    ceilings = found.get("device", {}).get("ceilings")
    if ceilings:
        rates = ", ".join(f"{name} {rate:.0f}" for name, rate in ceilings["gemm_tflops"].items())
        yield "measured ceiling of an 8192^3 product, TFLOP/s", rates
        yield "copy within the GPU, from pinned memory, GB/s", (
            f"{ceilings['copy_within_gb_per_s']:.0f}, {ceilings['copy_from_host_gb_per_s']:.0f}")
    for name, title in (("fit", "95-epoch fit"), ("consensus", "consensus fit")):
        if name in found:
            middle = found[name][len(found[name]) // 2]
            yield f"{title} of 3 x 50,000 rows, files to bundle, s", f"{middle['seconds']:.2f} ({stages_of(middle)})"
    for run in found.get("device", {}).get("resident_transform", []):
        yield (f"transform of 2,000,000 x 768 in GPU memory, {run['precision']}",
               f"{run['transform_ms']:.2f} ms, {run['share_of_product_rate']:.2f} of cuBLAS's rate")
    if "transform" in found:
        run = found["transform"]
        yield (f"transform of a file of {run['file_gb']:.1f} GB, s",
               f"cuda {run['cuda_tf32_seconds']:.2f} (fp32 {run['cuda_fp32_seconds']:.2f}), "
               f"processor {run['cpu_seconds']:.2f}; reading alone {run['read_seconds']:.2f}, "
               f"writing alone {run['write_seconds']:.2f}")
    for name, result in found["checks"].items():
        yield CHECKS[name], "passed" if result["passed"] else "FAILED"


def show(found, about):
    print(f"{about['gpu']}, driver {about['driver']}, CUDA {about['cuda']}, commit {about['commit']}")
    print(f"{'PARAM step, ms':<44}" + "".join(f"{'K ' + format(s, ','):>12}" for s in SUPPORTS))
    for title, cells in step_lines(found):
        print(f"{title:<44}" + "".join(f"{cell:>12}" for cell in cells))
    for title, value in other_lines(found):
        print(f"{title}: {value}")


def markdown(found, about):
    yield "# Measured on a GPU"
    yield ""
    yield "Made by `scripts/gpu`; the numbers themselves, with every round, are in `gpu.json`."
    yield ""
    yield f"- {about['date']}, commit {about['commit']}"
    yield f"- {about['gpu']} ({about['gpu_memory']}), driver {about['driver']}, CUDA {about['cuda']}"
    versions = {value["torch"] for key, value in found.items() if key.startswith("peer-")}
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


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("found", type=pathlib.Path)
    options.add_argument("out", type=pathlib.Path)
    options.add_argument("--commit", default="")
    chosen = options.parse_args()
    about, found = machine(chosen.commit), read(chosen.found)
    (chosen.out / "gpu.json").write_text(json.dumps({"machine": about, **found}, indent=1) + "\n")
    (chosen.out / "gpu.md").write_text("\n".join(markdown(found, about)) + "\n")
    show(found, about)


if __name__ == "__main__":
    main()
