# SPDX-License-Identifier: Apache-2.0
"""Rows of Parquet files through a map, a batch at a time; also the program kedge-parquet, which 'kedge transform' and
'kedge translate' become where a file is Parquet."""
import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time

import numpy as np

from . import _arrow, _core, _inputs

BATCH_ROWS = 8192
COLUMN = "embedding"  # of rows that had no name before


def split(path):
    """The file, and the column that is named behind it or None."""
    if path.endswith(".parquet") or ".parquet#" not in path:
        return path, None
    file, column = path.split(".parquet#", 1)
    return file + ".parquet", column


def flush(path):
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def appearing(path, in_place):
    """A name to write to; what is there takes its place only when it is whole, and in place, where it replaces the only
    copy of rows, when it is on the disk."""
    target = os.path.realpath(path)
    handle, partial = tempfile.mkstemp(prefix=".kedge-", suffix=".partial", dir=os.path.dirname(target))
    try:
        os.close(handle)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(partial, os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o666 & ~umask)
        yield partial
        if in_place:
            flush(partial)
        os.replace(partial, target)
        if in_place:
            flush(os.path.dirname(target))
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(partial)
        raise


class Rows:
    """The batches of a Parquet file between two rows, each with the matrix its vectors make."""

    def __init__(self, path, rows):
        self.path, name = split(path)
        _arrow.library(self.path)
        import pyarrow
        import pyarrow.parquet

        try:
            self.file = pyarrow.parquet.ParquetFile(self.path, pre_buffer=False)
        except (pyarrow.ArrowException, OSError) as error:
            raise OSError(f"cannot read '{self.path}': {error}") from None
        self.schema = self.file.schema_arrow
        if name is not None and name not in self.schema.names:
            raise ValueError(f"'{self.path}' has no column '{name}'; it has {_inputs.named(self.schema.names, 8)}")
        self.name = _arrow.choose(self.schema, self.path) if name is None else name
        if self.name is None:
            raise ValueError(f"{self.path}: expected a column of vectors, found columns of single numbers; make it one, "
                             "a list in every row")
        total = self.file.metadata.num_rows
        if _inputs.are_ids(rows):
            raise ValueError(f"rows of {self.path}: a Parquet file is read in order, so give a range such as (0, 50000)")
        first, end = _inputs.range_of(rows) or (0, _inputs.END)
        self.first, self.end = first, total if end == _inputs.END else end
        if self.first >= self.end or self.end > total:
            raise ValueError(f"asked for rows {self.first}:{self.end}, but {self.path} has rows 0:{total}")

    def __len__(self):
        return self.end - self.first

    def __iter__(self):
        row = 0
        # One group after the other: given all at once, those that are done would stay in memory.
        groups = range(self.file.num_row_groups)
        for batch in (batch for group in groups for batch in self.file.iter_batches(BATCH_ROWS, row_groups=[group])):
            skip, stop = max(self.first - row, 0), min(self.end - row, len(batch))
            if skip < stop:
                part = batch.slice(skip, stop - skip)
                matrix = _arrow.rows(part.column(self.name), f"{self.path}, from row {row + skip}")
                wrong = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
                if len(wrong):
                    raise OSError(f"cannot read '{self.path}': its row {row + skip + wrong[0]} holds a value that is NaN "
                                  "or infinite; remove that row, or encode it again")
                yield part, matrix
            row += len(batch)
            if row >= self.end:
                return


def vectors(matrix):
    """A column with one vector in every row."""
    import pyarrow as pa

    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.ravel()), matrix.shape[1])


def with_column(batch, name, column):
    """The batch with this column, in place of the one of that name or behind the others."""
    import pyarrow as pa

    columns = dict(zip(batch.schema.names, batch.columns))
    columns[name] = column
    fields = [batch.schema.field(n) if n != name else pa.field(n, column.type) for n in columns]
    return pa.record_batch(list(columns.values()), pa.schema(fields, batch.schema.metadata))


def write_parquet(batches, path):
    import pyarrow.parquet

    writer = None
    try:
        for batch in batches:
            writer = writer or pyarrow.parquet.ParquetWriter(path, batch.schema)
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()


def write_npy(matrices, rows, dim, path):
    with open(path, "wb") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, dim)})
        for matrix in matrices:
            file.write(np.ascontiguousarray(matrix, "<f4").data)


def from_parquet(map, rows, output, normalize, in_place, report):
    target, name = split(output)
    if name is not None and name != rows.name and name in rows.schema.names:
        raise ValueError(f"'{rows.path}' already has a column '{name}'; name another one for the results")

    def batches():
        done = 0
        for batch, matrix in rows:
            yield batch, map.transform(matrix, normalize=normalize)
            done += len(batch)
            if report is not None:
                report("transforming", done, len(rows), "")

    with appearing(target, in_place) as partial:
        if _arrow.is_parquet(output):
            write_parquet((with_column(batch, name or rows.name, vectors(y)) for batch, y in batches()), partial)
        else:
            dim = getattr(map, "n_features_out", None) or map.n_anchors
            write_npy((y for _, y in batches()), len(rows), dim, partial)


def to_parquet(map, input, output, rows, normalize, report):
    """Through a .npy, which the library writes faster than Python could, and which is read in batches. It never replaces
    its input, which is of another kind."""
    import pyarrow as pa

    target, name = split(output)
    folder = os.path.dirname(os.path.realpath(target))
    with tempfile.TemporaryDirectory(prefix=".kedge-", suffix=".partial", dir=folder) as between:
        file = os.path.join(between, "rows.npy")
        map.transform_file(input, file, rows=rows, normalize=normalize, progress=report or False)
        matrix = np.load(file, mmap_mode="r")
        parts = (pa.record_batch([vectors(np.asarray(matrix[i:i + BATCH_ROWS]))], [name or COLUMN])
                 for i in range(0, len(matrix), BATCH_ROWS))
        with appearing(target, False) as partial:
            write_parquet(parts, partial)


def transform_file(map, input, output, rows, device, normalize, in_place, report):
    """What RelativeMap.transform_file and Translator.transform_file do where a file is Parquet."""
    input, output = os.fsdecode(input), os.fsdecode(output)
    _arrow.library(output)
    target = split(output)[0]
    if device != "cpu":
        raise ValueError("Parquet is read and mapped on the processor; leave out the device, or save the column as .npy")
    if not target.endswith((".parquet", ".npy")):
        raise ValueError(f"cannot write '{output}': results are npy or Parquet files, so name it '{output}.parquet'")
    _core.require_other_file(target, input, in_place)
    if not os.path.isdir(os.path.dirname(os.path.realpath(target))):
        raise OSError(f"cannot write '{target}': No such file or directory; create the folder first")
    if _arrow.is_parquet(input):
        from_parquet(map, Rows(input, rows), output, normalize, in_place, report)
    else:
        to_parquet(map, input, output, rows, normalize, report)


def arguments():
    parser = argparse.ArgumentParser("kedge-parquet", description="kedge transform and kedge translate for Parquet files.")
    parser.add_argument("command", choices=["transform", "translate"])
    parser.add_argument("bundle")
    for name in ("--space", "--from", "--to", "--in", "--out", "--rows", "--device", "--precision"):
        parser.add_argument(name)
    parser.add_argument("--threads", type=int, default=0)
    for name in ("--normalize", "--in-place", "--json", "--quiet"):
        parser.add_argument(name, action="store_true")
    return parser


def run(given):
    began = time.monotonic()
    if given["threads"]:
        _core.set_threads(given["threads"])
    bundle = _core.Bundle.load(given["bundle"])
    _core.require_other_file(split(given["out"])[0], given["bundle"])
    if given["command"] == "transform":
        map, names = bundle[given["space"]], {"space": given["space"]}
    else:
        map, names = bundle.translator(given["from"], given["to"]), {"from": given["from"], "to": given["to"]}
    map.transform_file(given["in"], given["out"], rows=given["rows"] or None, device=given["device"] or "cpu",
                       normalize=given["normalize"], in_place=given["in_place"], progress=not given["quiet"])
    seconds = time.monotonic() - began
    if given["json"]:
        print(json.dumps({"command": given["command"], **names, "out": given["out"], "seconds": seconds}))
    if not given["quiet"]:
        print(f"wrote {given['out']}, {seconds:.2f} s", file=sys.stderr)


def complain(error):
    """Says what the command would say."""
    print(f"kedge: {getattr(error, 'in_words_of_the_command', error)}", file=sys.stderr)


def main(words=None):
    """Exits like the command: 1 failed, 2 wrong usage, 3 bad file, 130 interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(vars(arguments().parse_args(words)))
    except KeyboardInterrupt:
        print("kedge: interrupted; no file was changed", file=sys.stderr)
        return 130
    except (ValueError, TypeError) as error:
        complain(error)
        return 2
    except OSError as error:
        complain(error)
        return 3 if "cannot read" in str(error) else 1
    except (ImportError, MemoryError) as error:
        complain(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
