# SPDX-License-Identifier: Apache-2.0
"""Arguments and exit codes. Exit: 0 done, 1 failed, 2 wrong usage, 3 bad file, 130 interrupted."""
from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from .._program import run
from . import presets


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="kedge-encode",
        description="Embeds images or texts with a pretrained model and writes the .npy files kedge reads.",
        epilog="Next to OUT.npy it writes OUT.ids.txt (paths of images, line numbers of texts), OUT.json and, if there "
               "are labels, OUT.labels.npy and OUT.labels.txt. The same command continues an interrupted run.")
    add = parser.add_argument
    add("--model", metavar="NAME", help="a preset (see --list), a folder, or a model's name on the hub")
    add("--data", metavar="PATH", help="images: a folder of them, of CIFAR's Python files or of MNIST's idx files; "
                                       "texts: a .txt (one per line), .jsonl, .csv or .tsv")
    add("-o", "--out", metavar="OUT.npy", help="file to write")
    add("--list", action="store_true", help="show the presets and exit")
    add("--kind", choices=["image", "text"], help="what the data are, if the path does not tell")
    add("--library", choices=presets.LIBRARIES, help="what loads the model [by preset, folder or kind]")
    add("--revision", metavar="NAME", help="branch, tag or commit of the model on the hub")
    add("--rows", metavar="FIRST:END", help="only these rows of the data, END excluded [all]")
    add("--batch", metavar="N", type=int, default=64, help="inputs per step (default: 64)")
    add("--device", choices=["cpu", "cuda"], help="where to compute [cuda if available]")
    add("--precision", choices=["float32", "float16"], default="float32",
        help="type of the output; float16 is half the size and has 11 bits of precision (default: float32)")
    add("--threads", metavar="N", type=int, default=0, help="processor threads to use; 0 means all (default: 0)")
    add("--fresh", action="store_true", help="start over, even if the file exists or is half done")
    add("--json", action="store_true", help="print a summary as JSON on stdout")
    add("-q", "--quiet", action="store_true", help="print nothing but errors")
    add = parser.add_argument_group("images").add_argument
    add("--split", choices=["train", "test", "all"], help="all is train, then test [all]")
    add("--labels", choices=["fine", "coarse"], help="which of CIFAR-100's labels [fine]")
    add = parser.add_argument_group("texts").add_argument
    add("--field", metavar="NAME", help="field or column with the text [text]")
    add("--label-field", metavar="NAME", help="field or column with the label [none]")
    add("--pooling", choices=["last", "mean", "cls"],
        help="how transformers' tokens become one vector [the preset's; else last for causal models, mean for others]")
    add("--max-length", metavar="N", type=int, help="tokens to read of each text [as many as the model can]")
    options = parser.parse_args(argv)
    missing = [name for name in ("model", "data", "out") if getattr(options, name) is None]
    if missing and not options.list:
        parser.error(f"these options are required: {', '.join('--' + name for name in missing)}")
    return options


def skip_unreachable_hub(model: str) -> None:
    """The hub's own library retries for a minute before it looks into its cache; without a network, this finds out at
    once. Behind a proxy it cannot, so it assumes nothing there."""
    import socket
    import urllib.parse
    import urllib.request
    if os.path.isdir(model) or urllib.request.getproxies() or os.environ.get("HF_HUB_OFFLINE"):
        return
    hub = urllib.parse.urlsplit(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))
    try:
        socket.create_connection((hub.hostname, hub.port or 443), timeout=5).close()
    except (OSError, ValueError):
        os.environ["HF_HUB_OFFLINE"] = "1"


def main(argv: Sequence[str] | None = None) -> int:
    options = dict(vars(arguments(argv)))
    if options.pop("list"):
        print(presets.table())
        return 0
    as_json = options.pop("json")

    def work() -> dict[str, Any]:
        skip_unreachable_hub(options["model"])
        from . import work
        return work.run(work.Options(**options))

    code, summary = run("kedge-encode", work, extra="encode", path=options["out"],
                        interrupted="interrupted before the first row; nothing was written",
                        memory="not enough memory; lower --batch, or embed fewer --rows")
    if code:
        return code
    if as_json:
        print(json.dumps(summary))
    return 0


if __name__ == "__main__":
    sys.exit(main())
