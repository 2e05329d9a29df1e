# SPDX-License-Identifier: Apache-2.0
"""The command on the same rows, part by part, as a batch system would run it."""
import os
import pathlib
import subprocess
from collections.abc import Sequence

import kedge
import numpy as np
from kedge import Bundle
from made_up import Spaces


def run(*words: object) -> None:
    done = subprocess.run([os.environ["KEDGE"], *map(str, words), "--quiet"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def fitted(folder: pathlib.Path, spaces: Spaces, ids: Sequence[int] | Sequence[str] | np.ndarray, support: int,
           parts: int = 3, options: Sequence[str] = ()) -> Bundle:
    """The bundle that 'kedge moments' of every part and 'kedge fit --moments' make."""
    edges = np.linspace(0, len(ids), parts + 1).astype(int)
    moments = []
    for n in range(parts):
        rows = slice(edges[n], edges[n + 1])
        words = []
        for name, matrix in spaces.items():
            np.save(folder / f"{name}-{n}.npy", matrix[rows])
            words += ["--space", f"{name}={folder / f'{name}-{n}.npy'}"]
        if isinstance(ids[0], str):
            names = folder / f"ids-{n}.txt"
            names.write_text("".join(f"{key}\n" for key in ids[rows]))
        else:
            names = folder / f"ids-{n}.npy"
            np.save(names, np.asarray(ids[rows]))
        moments += ["--moments", folder / f"{n}.moments"]
        run("moments", *words, "--ids", names, "--support", support, "-o", moments[-1])
    run("fit", *moments, "-o", folder / "shared.kedge", *options)
    return kedge.load(folder / "shared.kedge")
