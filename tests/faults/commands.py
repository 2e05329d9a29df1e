# SPDX-License-Identifier: Apache-2.0
"""Every command that writes files, as words with {out} for the folder it writes to."""
import pathlib
import shutil

from conftest import Kedge

ROOT = pathlib.Path(__file__).resolve().parents[2]

TWO = "--space a=a.npy --space b=b.npy"
THREE = f"{TWO} --space c=c.npy"
STITCH = f"{THREE} --labels labels.npy --train 0:150 --test 150:200 --head linear --no-report"

# Each of these replaces the files it names.
FILES = {
    "fit": (f"fit {TWO} --method fps --anchors 10 --support 60 -o {{out}}/new.kedge", ["new.kedge"]),
    "fit with checkpoints": (
        f"fit {TWO} --method param --anchors 10 --epochs 4 --batch 64 --checkpoint-every 1 -o {{out}}/new.kedge",
        ["new.kedge"]),
    "fit with a history": (
        f"fit {TWO} --method param --anchors 10 --epochs 3 --batch 64 --history {{out}}/losses.csv -o new.kedge",
        ["losses.csv"]),
    "attach": ("attach x.kedge --space c=c.npy -o {out}/new.kedge", ["new.kedge"]),
    "transform": ("transform x.kedge --space a -i a.npy -o {out}/rr.npy", ["rr.npy"]),
    "translate": ("translate x.kedge --from a --to b -i a.npy -o {out}/b.npy", ["b.npy"]),
    "export to safetensors": ("export x.kedge --space a -o {out}/a.safetensors", ["a.safetensors"]),
    "export to npy": ("export x.kedge --space a -o {out}/a.npy", ["a.weight.npy", "a.bias.npy", "a.mean.npy"]),
    "export to onnx": ("export x.kedge --space a -o {out}/a.onnx", ["a.onnx"]),
}

# Each of these adds to a folder of results: what --seeds 1 left there is the old state, --seeds 3 the new one.
FOLDERS = {
    "stitch": f"stitch {STITCH} --methods random-cosine,consensus --anchors 6 -o {{out}}/results",
    "sweep": f"sweep {STITCH} --methods random-cosine,consensus --anchors 4,6 -o {{out}}/results",
}
RESULTS = ["results.json", "results.csv", "figures.json", "tables.json", "tables.md", "tables.tex"]

DEMO = f"demo --data {ROOT / 'data' / 'slm'} --no-report -o {{out}}/demo"

# Each of these says all it has to say on stdout.
PRINTED = {
    "inspect": "inspect x.kedge",
    "inspect --json": "inspect x.kedge --json",
    "compare": "compare a.npy a.npy",
    "compare --json": "compare a.npy a.npy --json",
    "retrieve": "retrieve --queries a.npy --documents a.npy --qrels qrels.npy",
    "retrieve --json": "retrieve --queries a.npy --documents a.npy --qrels qrels.npy --json",
    "devices": "devices",
    "devices --json": "devices --json",
    "transform --json": "transform x.kedge --space a -i a.npy -o rr.npy --json",
    "help": "--help",
    "help of a command": "fit --help",
    "version": "--version",
}


def words(text: str, out: str = ".") -> list[str]:
    return text.format(out=out).split()


def write_old(kedge: Kedge, folder: pathlib.Path, names: list[str]) -> None:
    """Results of another bundle: of the same kind, since nothing else would be replaced, but with other bytes."""
    earlier = kedge.folder / "earlier"
    earlier.mkdir()
    kedge.ok(*words("fit --space a=a.npy --space c=c.npy --method random --anchors 4 --support 30 "
                    "-o earlier/new.kedge"))
    for ending in ("safetensors", "npy", "onnx"):
        kedge.ok(*words(f"export earlier/new.kedge --space a -o earlier/a.{ending}"))
    for name in names:
        old = earlier / name
        (folder / name).write_bytes(old.read_bytes() if old.exists() else b"the old " + name.encode())
    shutil.rmtree(earlier)
