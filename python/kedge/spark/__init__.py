# SPDX-License-Identifier: Apache-2.0
"""kedge on a Spark cluster: fit, attach, transform, translate and validate over DataFrames that no machine holds.

>>> import kedge.spark
>>> rows = spark.read.parquet("s3a://bucket/embeddings")
>>> bundle = kedge.spark.fit(rows, columns={"vit": "emb_vit", "rex": "emb_rex"}, id="id")
>>> shared = kedge.spark.transform(bundle, rows, space="vit", column="emb_vit", into="shared")
>>> shared.select("id", "shared").write.parquet("s3a://bucket/shared")

Workers need kedge too: pip install '.[spark]' in kedge's folder, for the Python that Spark starts there, python3 unless
the environment variable PYSPARK_PYTHON or the setting spark.pyspark.python names another.
"""
from __future__ import annotations

import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING

from .._extras import install as _install

try:
    import pyarrow as _arrow  # noqa: F401
    import pyspark.sql as _sql  # noqa: F401
except ImportError as error:
    # Named, as workers often have another Python than the driver.
    raise ImportError(f"kedge.spark needs pyspark and pyarrow, and {_sys.executable} lacks one ({error}); "
                      f"{_install('spark')} there, or let PYSPARK_PYTHON name the Python that workers start") from None

from ..parts import apply as _apply
from ..parts import solve as _solve
from . import ids as _ids
from . import maps as _maps
from . import sums as _sums

if _TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import pandas as pd
    from pyspark.sql import DataFrame

    from .._core import Bundle
    from .._progress import ShowProgress
    from .._typing import Path

__all__ = ["attach", "fit", "transform", "translate", "validate"]


@_solve.fit_options
def fit(df: DataFrame | Path, columns: Mapping[str, str], id: str = "id", *,  # noqa: A002  users type it
        support: int | None = None, seed: int = 0, sample: int = _solve.SAMPLE, check_ids: bool = False,
        progress: ShowProgress = False, **options: Any) -> Bundle:
    """Learn anchors that several encoders share, from rows that workers read and sum up where they are.

    Parameters
    ----------
    df : DataFrame or path
        Rows with an id and one vector for each encoder, an array of floats. Of a path, the Parquet files of that
        folder: workers read them without Spark's rows in between, which is faster, and float16 too, which Spark cannot
        read.
    columns : dict
        The column of every space by its name, such as {"vit": "emb_vit", "rex": "emb_rex"}.
    id : str
        The column that names rows: whole numbers or texts, each once.
    support : int, optional
        How many rows to make anchors from: those with the smallest hash of id and seed, wherever they are. 5,000 by
        default, or all if there are fewer.
    seed : int
        Another seed, another support.
    sample : int
        How many rows are brought to the driver if the method learns from rows: param, and refinement.
    check_ids : bool
        Whether to look for ids that several rows have among all rows first, which reads the ids once more. Otherwise
        they are all compared up to two million rows, and of more only those of the support.
    progress : bool or callable
        True shows a progress bar; a function is called with step, done, total and detail. With Spark Connect these are
        percent of tasks.
    **options
        As for kedge.fit: method, attach, anchors, shrinkage, device, ... The driver solves.

    Returns
    -------
    Bundle
        As 'kedge moments' of all parts and 'kedge fit' make it.
    """
    drawn = _solve.rows_to_draw(support, sample, options)
    _solve.require_fit(seed, options)
    if check_ids:
        _ids.require_unique(df, columns, id, "kedge: fit", progress)
    total = _sums.total(df, columns, id, drawn, seed, "kedge: fit", progress)
    return _solve.fitted(total, support, seed, options)


@_solve.attach_options
def attach(bundle: Bundle | Path, df: DataFrame | Path,
           columns: Mapping[str, str], id: str = "id", *,  # noqa: A002  users type it
           replace: bool = False, check_ids: bool = False, progress: ShowProgress = False,
           **options: Any) -> Bundle:
    """Add encoders without changing the anchors, from their embeddings of rows among which the support is.

    Parameters
    ----------
    bundle : Bundle or path
        One whose support was drawn by id: by fit of this module, by kedge.ray, or by the command with --ids.
    df, columns, id, check_ids, progress
        As for fit.
    replace : bool
        Whether spaces of the same names may be replaced.
    **options
        As for Bundle.attach: attach, ridge, ...

    Returns
    -------
    Bundle
        A copy with the new spaces. The one given stays as it is.
    """
    bundle = _apply.bundle_of(bundle)
    _solve.require_attach(bundle, columns, replace, options)
    if check_ids:
        _ids.require_unique(df, columns, id, "kedge: attach", progress)
    total = _sums.total(df, columns, id, bundle.support_ids, 0, "kedge: attach", progress)
    return _solve.attached(total, bundle, {**options, "replace": replace})


def transform(bundle: Bundle | Path, df: DataFrame | Path, *, space: str, column: str, into: str,
              normalize: bool = False, output: Path | None = None, keep: Sequence[str] | None = None,
              progress: ShowProgress = False) -> DataFrame | str:
    """Relative representations: what the space's map makes of the vectors of a column.

    Parameters
    ----------
    bundle : Bundle or path
        From fit.
    df : DataFrame or path
        Rows, or a folder of Parquet files.
    space, column : str
        Whose map to use, and the column with its vectors.
    into : str
        The column for the results, arrays of float.
    normalize : bool
        Whether to give results length 1.
    output : path, optional
        For a folder: one to write to. Workers read and write files themselves. Files of the same map that are there
        and whole are kept, so that a second run goes on where the first one ended.
    keep : list of str, optional
        For a folder: columns to write beside the results; all by default.
    progress : bool or callable
        For a folder, as for fit. Of DataFrames, Spark itself shows how far they are.

    Returns
    -------
    DataFrame or str
        Of a DataFrame, one with the column of results: nothing is computed until it is used. All its columns pass
        through Python, so select those you need before. Of a folder, the path of the one written; spark.read.parquet
        reads it, unless a column of float16 was kept.
    """
    application = _apply.transformation(bundle, space, column, into, normalize)
    return _maps.mapped(application, df, output, keep, progress)


def translate(bundle: Bundle | Path, df: DataFrame | Path, *, source: str, target: str, column: str, into: str,
              normalize: bool = False, output: Path | None = None, keep: Sequence[str] | None = None,
              progress: ShowProgress = False) -> DataFrame | str:
    """Vectors as the encoder 'target' would have made them, from those of 'source'; otherwise as transform."""
    application = _apply.translation(bundle, source, target, column, into, normalize)
    return _maps.mapped(application, df, output, keep, progress)


@_solve.validate_options
def validate(df: DataFrame | Path, columns: Mapping[str, str], id: str = "id", *,  # noqa: A002  users type it
             sample: int = _solve.VALIDATED, seed: int = 0, progress: ShowProgress = False,
             **options: Any) -> pd.DataFrame:
    """Estimate how an unseen encoder will score: every space is held out in turn, so there must be three or more.

    Parameters
    ----------
    df, columns, id, seed, progress
        As for fit.
    sample : int
        How many rows to draw by id and bring to the driver, which holds spaces out as kedge.validate does.
    **options
        As for kedge.validate: anchors, support, attach, ...

    Returns
    -------
    pandas.DataFrame
        A row for each space that was held out, with its scores.
    """
    _solve.require_validate(columns, seed, options)
    total = _sums.total(df, columns, id, _solve.whole("sample", sample), seed, "kedge: validate", progress)
    return _solve.validated(total, seed, options)
