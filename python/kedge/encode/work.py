# SPDX-License-Identifier: Apache-2.0
"""The work from start to end: open the data, load the model, embed window by window, put the files in place."""
from __future__ import annotations

import concurrent.futures
import dataclasses
import datetime
import hashlib
import os
import platform
import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .._errors import BadFile, Error, UsageError
from .._extras import what_is_missing
from .._progress import RowProgress, command_progress
from . import models, output, presets
from .data import open_data
from .inputs import BadRow, Data
from .models import Encoder
from .presets import Model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclasses.dataclass
class Options:
    """What the command and encode() take; None leaves it to the model or the data."""
    model: str
    data: str
    out: str
    kind: str | None = None
    library: str | None = None
    pooling: str | None = None
    revision: str | None = None
    split: str | None = None
    labels: str | None = None
    field: str | None = None
    label_field: str | None = None
    rows: str | None = None
    max_length: int | None = None
    batch: int = 64
    device: str | None = None
    precision: str = "float32"
    threads: int = 0
    fresh: bool = False
    quiet: bool = False


def row_range(text: str | None, total: int) -> tuple[int, int]:
    """FIRST:END, half-open, either side may be left out."""
    found = re.fullmatch(r"([0-9]{0,18}):([0-9]{0,18})", text or ":")
    if not found:
        raise UsageError(f"--rows {text}: expected FIRST:END, such as 0:1000")
    first, end = int(found[1] or 0), int(found[2] or total)
    if not first < end <= total:
        raise UsageError(f"--rows {text}: expected rows within the {total} that the data have, FIRST before END")
    return first, end


def model_state(model: Model) -> str | None:
    """Fingerprint of a local model: other files, other embeddings. A hub model is identified by name and revision."""
    if not model.folder:
        return None
    digest = hashlib.sha256()
    for base, _, names in sorted(os.walk(model.name)):
        for name in sorted(names):
            about = os.stat(os.path.join(base, name))
            digest.update(f"{os.path.relpath(base, model.name)}/{name} {about.st_size} {about.st_mtime_ns}\n".encode(
                "utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


def check_finite(rows: NDArray[np.float32], dtype: str, data: Data, start: int) -> NDArray[Any]:
    """The rows, of the inputs from 'start' on, in the type they are stored in."""
    import numpy
    with numpy.errstate(over="ignore"):
        stored = rows.astype(dtype)
    bad = numpy.flatnonzero(~numpy.isfinite(stored).all(axis=1))
    if len(bad):
        where = data.where(start + int(bad[0]))
        if numpy.isfinite(rows[bad[0]]).all():
            raise Error(f"{where}: its embedding has values beyond what {dtype} holds; use --precision float32")
        raise Error(f"{where}: the model gives NaN or infinity for it; this row was not written. Is the "
                    "checkpoint damaged?")
    return stored


def windows(data: Data, encoder: Encoder, starts: Sequence[int], end: int,
            threads: int) -> Iterator[tuple[int, list[Any]]]:
    """(first row, prepared inputs) of each window, prepared by threads while the one before is embedded."""
    import torch
    before = torch.get_num_threads()

    def begin(start: int) -> list[concurrent.futures.Future[Any]]:
        return [pool.submit(lambda row: encoder.prepare(data.read(row)), row)
                for row in range(start, min(start + encoder.window, end))]

    # Each worker by itself computes on one thread; they are many already.
    pool = concurrent.futures.ThreadPoolExecutor(threads or before, initializer=torch.set_num_threads, initargs=(1,))
    try:
        ahead = begin(starts[0]) if starts else []
        for index, start in enumerate(starts):
            now, ahead = ahead, begin(starts[index + 1]) if index + 1 < len(starts) else []
            yield start, [future.result() for future in now]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        torch.set_num_threads(before)  # what they set is also the default of threads made later


def embed_all(data: Data, encoder: Encoder, out: output.Output, first: int, end: int, options: Options,
              progress: RowProgress) -> None:
    """Embeds what is not done yet. Windows begin at fixed rows, so that a resumed run makes the same ones."""
    import torch
    starts = list(range(first + out.done, end, encoder.window))
    for start, prepared in windows(data, encoder, starts, end, options.threads):
        try:
            rows = encoder.embed(prepared)
        except BadRow as error:
            raise BadFile(f"{data.where(start + error.index)}: {error}") from None
        except torch.OutOfMemoryError:
            raise Error(f"the GPU's memory is too small for batches of {options.batch}; lower --batch") from None
        except (Error, MemoryError):
            raise
        except Exception as error:
            said = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise Error(f"{data.where(start)}, or one of the {len(prepared) - 1} after it: the model fails: "
                        f"{said}") from error
        out.append(check_finite(rows, options.precision, data, start))
        progress.advance(len(rows))


def run(options: Options) -> dict[str, Any]:
    """Makes the files and returns a summary."""
    began = time.monotonic()

    def say(text: str) -> None:
        if not options.quiet:
            print(f"kedge-encode: {text}", file=sys.stderr)

    if options.batch < 1 or options.threads < 0 or (options.max_length is not None and options.max_length < 1):
        raise UsageError("--batch and --max-length must be at least 1, and --threads at least 0")
    data = open_data(options.data, options.kind, options.split, options.labels, options.field, options.label_field)
    first, end = row_range(options.rows, len(data.ids))
    model = presets.resolve(options.model, data.kind, options.library)
    pooling = options.pooling or model.pooling
    settings = {"model": model.name, "library": model.library, "revision": options.revision,
                "model files": model_state(model), "pooling": pooling, "max-length": options.max_length,
                "batch": options.batch, "precision": options.precision, "data content": data.content[:16],
                "rows": f"{first}:{end}", "split": options.split, "labels": options.labels, "field": options.field,
                "label-field": options.label_field}
    out = output.Output(options.out, settings, end - first, options.precision)
    summary = {"out": options.out, "rows": end - first, "model": model.name, "library": model.library}
    if not options.fresh and out.finished():
        say(f"{options.out} already exists, made by the same command; use --fresh to make it again")
        return {**output.read_json(out.beside(".json")), **summary, "made": False}
    out.check(options.fresh)
    say(f"{end - first} rows of {data.what}, {model.name} through {model.library}")
    try:
        import numpy
        import torch
    except ImportError as error:
        raise Error(what_is_missing(error, "encode")) from None
    if options.threads:
        torch.set_num_threads(options.threads)
    encoder = models.load(model, options.device, options.quiet, batch=options.batch, pooling=pooling,
                          max_length=options.max_length, revision=options.revision)
    versions = {"python": platform.python_version(), "numpy": numpy.__version__, "torch": torch.__version__,
                "device": models.device_name(options.device), **encoder.versions}
    resumed = out.begin(versions, options.fresh)
    if resumed:
        say(f"continuing after {resumed} rows")
    embedding_began = time.monotonic()
    progress = command_progress("kedge-encode", end - first, options.quiet, resumed)
    try:
        embed_all(data, encoder, out, first, end, options, progress)
    except KeyboardInterrupt:
        if not out.done:
            raise
        raise KeyboardInterrupt(f"interrupted after {out.done} of {out.rows} rows; the same command continues"
                                ) from None
    finally:
        progress.close()
        if out.done < out.rows:
            out.stop()
    seconds, rate = time.monotonic() - began, (out.rows - resumed) / max(time.monotonic() - embedding_began, 1e-9)
    dim = out.row_bytes // numpy.dtype(options.precision).itemsize
    labels = None if data.labels is None else data.labels[first:end]
    summary |= {"dim": dim, "precision": options.precision, "kind": data.kind, "format": data.what,
                "data": options.data, "classes": None if labels is None else len(numpy.unique(labels)),
                "details": encoder.details, "versions": versions}
    out.finish(data.ids[first:end], labels, data.names,
               {**summary, "when": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")})
    say(f"wrote {options.out}, {out.rows} rows of {dim} values, in {seconds:.1f} s "
        f"({rate:.3g} rows per second once the model was loaded)")
    return {**summary, "made": True, "resumed_after": resumed, "seconds": round(seconds, 2),
            "rows_per_second": round(rate, 1)}
