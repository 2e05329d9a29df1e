# SPDX-License-Identifier: Apache-2.0
"""A small store and two models of it. A text is the number of a document, and the models know all documents."""
import pathlib

import numpy as np

ROWS, OLD, NEW = 400, 12, 16


def spaces(rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """(old, new) vectors of length 1: two bent views of the same five hidden values, with noise."""
    rng = np.random.default_rng(seed)
    hidden = rng.normal(size=(rows, 5))

    def view(width: int) -> np.ndarray:
        bent = np.tanh(hidden @ rng.normal(size=(5, width))) + .1 * rng.normal(size=(rows, width))
        return np.asarray(bent / np.linalg.norm(bent, axis=1, keepdims=True), np.float32)

    return view(OLD), view(NEW)


def models(folder: pathlib.Path, new: np.ndarray, old: np.ndarray | None = None) -> None:
    """A module 'models' with the functions new and old, from texts to vectors, and a counter of texts."""
    np.save(folder / "new_model.npy", new)
    if old is not None:
        np.save(folder / "old_model.npy", old)
    (folder / "models.py").write_text(f"""
import numpy as np
def embed(name, texts):
    with open({str(folder / 'asked.txt')!r}, "a") as file:
        file.write("".join(text + "\\n" for text in texts))
    return np.load({str(folder)!r} + "/" + name)[[int(text) for text in texts]]
def new(texts):
    return embed("new_model.npy", texts)
def old(texts):
    return embed("old_model.npy", texts)
""")
