# SPDX-License-Identifier: Apache-2.0
"""A map applied to Arrow batches, whose other columns stay as they are."""
from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import _arrow
from .._core import Bundle, RelativeMap, Translator
from .._typing import Path
from ..parquet import values_of, vectors
from .columns import first_wrong, require_columns

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 8192


@dataclasses.dataclass
class Application:
    """A map of a bundle, from the vectors of one column into another column. Pickled to travel to workers."""

    bundle: Bundle
    spaces: tuple[str, ...]  # one to transform, or the two to translate between
    column: str
    into: str
    normalize: bool

    def __post_init__(self) -> None:
        source, *target = self.spaces
        self.mapper: RelativeMap | Translator = (
            self.bundle.translator(source, *target) if target else self.bundle[source])

    def __reduce__(self) -> tuple[type[Application], tuple[Any, ...]]:
        return Application, (self.bundle, self.spaces, self.column, self.into, self.normalize)

    @property
    def dim(self) -> int:
        """Values of a result."""
        return values_of(self.mapper)

    def require(self, names: Sequence[str]) -> None:
        require_columns([self.column, *names], names)
        if self.into in names and self.into != self.column:
            raise ValueError(f"there already is a column '{self.into}'; name another one for the results")

    def __call__(self, batch: pa.RecordBatch, where: str, first_row: int = 0) -> pa.RecordBatch:
        """The batch or table with the results; its first row is number 'first_row' of 'where', for messages."""
        import pyarrow as pa

        parts = [self.results(batch.slice(first, BATCH_ROWS), where, first_row + first)
                 for first in range(0, batch.num_rows, BATCH_ROWS)]
        column = pa.concat_arrays(parts) if parts else pa.array([], pa.list_(pa.float32(), self.dim))
        field = pa.field(self.into, column.type)
        if self.into in batch.schema.names:
            return batch.set_column(batch.schema.get_field_index(self.into), field, column)
        return batch.append_column(field, column)

    def results(self, batch: pa.RecordBatch, where: str, first: int) -> pa.FixedSizeListArray:
        given = batch.column(self.column)
        try:
            rows = _arrow.rows(given, self.column)
            return vectors(self.mapper.transform(rows, normalize=self.normalize))
        except ValueError as error:
            row, found = first_wrong(given, self.mapper.n_features_in, "the map takes")
            if row is None:
                raise ValueError(f"{where}: {error}") from None
            raise ValueError(f"{where}: row {first + row} {found} in the column '{self.column}'; leave it out, or "
                             "encode it again") from None


def bundle_of(given: Bundle | Path) -> Bundle:
    """The bundle, read if it is a path."""
    if isinstance(given, (str, os.PathLike)):
        return Bundle.load(given)
    if not hasattr(given, "__getitem__"):
        raise TypeError(f"expected a Bundle or the path of one, found {type(given).__name__}")
    return given


def transformation(bundle: Bundle | Path, space: str, column: str, into: str, normalize: bool) -> Application:
    return Application(bundle_of(bundle), (space,), column, into, normalize)


def translation(bundle: Bundle | Path, source: str, target: str, column: str, into: str,
                normalize: bool) -> Application:
    return Application(bundle_of(bundle), (source, target), column, into, normalize)
