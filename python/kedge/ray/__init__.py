# SPDX-License-Identifier: Apache-2.0
"""kedge on a Ray cluster: fit, attach, transform, translate and validate over datasets that no machine holds.

>>> import kedge.ray, ray
>>> rows = ray.data.read_parquet("s3://bucket/embeddings")
>>> bundle = kedge.ray.fit(rows, columns={"vit": "emb_vit", "rex": "emb_rex"}, id="id")
>>> kedge.ray.transform(bundle, rows, space="vit", column="emb_vit", into="shared").write_parquet("s3://bucket/shared")
"""
from __future__ import annotations

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .._extras import install as _install

try:
    import ray.data as _data  # noqa: F401  to say what is missing
except ImportError as error:
    raise ImportError(f"kedge.ray needs Ray with its datasets ({error}); {_install('ray')}") from None

from ..parts import apply as _apply
from ..parts import solve as _solve
from . import ids as _ids
from . import maps as _maps
from . import sums as _sums

if _TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    import pandas as pd
    from ray.data import Dataset

    from .._core import Bundle
    from .._progress import ShowProgress
    from .._typing import Path

__all__ = ["attach", "fit", "transform", "translate", "validate"]


@_solve.fit_options
def fit(dataset: Dataset | Path, columns: Mapping[str, str], id: str = "id", *,  # noqa: A002  users type it
        support: int | None = None, seed: int = 0, sample: int = _solve.SAMPLE, check_ids: bool = False,
        progress: ShowProgress = False, **options: Any) -> Bundle:
    """Learn anchors that several encoders share, from rows that workers read and sum up where they are.

    Parameters
    ----------
    dataset : ray.data.Dataset or path
        Rows with an id and one vector for each encoder. Of a path, the Parquet files of that folder: workers read them
        without a copy through Ray's object store.
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
        How many rows are brought to one machine if the method learns from rows: param, and refinement.
    check_ids : bool
        Whether to look for ids that several rows have among all rows first, which reads the ids once more. Otherwise
        they are all compared up to two million rows, and of more only those of the support.
    progress : bool or callable
        True shows a bar; a function is called with step, done, total and detail.
    **options
        As for kedge.fit: method, attach, anchors, shrinkage, ... With device='cuda' the solve asks Ray for a GPU.

    Returns
    -------
    Bundle
        As 'kedge moments' of all parts and 'kedge fit' make it.
    """
    drawn = _solve.rows_to_draw(support, sample, options)
    _solve.require_fit(seed, options)
    _sums.start(options.get("device"))
    if check_ids:
        _ids.require_unique(dataset, columns, id, progress)
    total = _sums.total(dataset, columns, id, drawn, seed, "summing up rows", progress)
    return _sums.solved(_solve.fitted, total, options.get("device"), support, seed, options)


@_solve.attach_options
def attach(bundle: Bundle | Path, dataset: Dataset | Path,
           columns: Mapping[str, str], id: str = "id", *,  # noqa: A002  users type it
           replace: bool = False, check_ids: bool = False, progress: ShowProgress = False,
           **options: Any) -> Bundle:
    """Add encoders without changing the anchors, from their embeddings of rows among which the support is.

    Parameters
    ----------
    bundle : Bundle or path
        One whose support was drawn by id: by fit of this module, by kedge.spark, or by the command with --ids.
    dataset, columns, id, check_ids, progress
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
    _sums.start(options.get("device"))
    if check_ids:
        _ids.require_unique(dataset, columns, id, progress)
    total = _sums.total(dataset, columns, id, bundle.support_ids, 0, "summing up rows", progress)
    return _sums.solved(_solve.attached, total, options.get("device"), bundle, {**options, "replace": replace})


def transform(bundle: Bundle | Path, dataset: Dataset | Path, *, space: str, column: str, into: str,
              normalize: bool = False, output: Path | None = None, keep: Sequence[str] | None = None,
              progress: ShowProgress = False) -> Dataset:
    """Relative representations: what the space's map makes of the vectors of a column.

    Parameters
    ----------
    bundle : Bundle or path
        From fit.
    dataset : ray.data.Dataset or path
        Rows, or a folder of Parquet files.
    space, column : str
        Whose map to use, and the column with its vectors.
    into : str
        The column for the results.
    normalize : bool
        Whether to give results length 1.
    output : path, optional
        For a folder: one to write to. Workers read and write files themselves. Files of the same map that are there
        and whole are kept, so that a second run goes on where the first one ended.
    keep : list of str, optional
        For a folder: columns to write beside the results; all by default.
    progress : bool or callable
        For a folder, as for fit. Datasets have their own progress bars.

    Returns
    -------
    ray.data.Dataset
        Of a dataset, with the column of results: nothing is computed until it is used. Of a folder, the one written.
    """
    application = _apply.transformation(bundle, space, column, into, normalize)
    return _maps.mapped(application, dataset, output, keep, progress)


def translate(bundle: Bundle | Path, dataset: Dataset | Path, *, source: str, target: str, column: str, into: str,
              normalize: bool = False, output: Path | None = None, keep: Sequence[str] | None = None,
              progress: ShowProgress = False) -> Dataset:
    """Vectors as the encoder 'target' would have made them, from those of 'source'; otherwise as transform."""
    application = _apply.translation(bundle, source, target, column, into, normalize)
    return _maps.mapped(application, dataset, output, keep, progress)


@_solve.validate_options
def validate(dataset: Dataset | Path, columns: Mapping[str, str], id: str = "id", *,  # noqa: A002  users type it
             sample: int = _solve.VALIDATED, seed: int = 0, progress: ShowProgress = False,
             **options: Any) -> pd.DataFrame:
    """Estimate how an unseen encoder will score: every space is held out in turn, so there must be three or more.

    Parameters
    ----------
    dataset, columns, id, seed, progress
        As for fit.
    sample : int
        How many rows to draw by id and bring to one machine, which holds spaces out as kedge.validate does.
    **options
        As for kedge.validate: anchors, support, attach, ...

    Returns
    -------
    pandas.DataFrame
        A row for each space that was held out, with its scores.
    """
    _solve.require_validate(columns, seed, options)
    _sums.start(options.get("device"))
    total = _sums.total(dataset, columns, id, _solve.whole("sample", sample), seed, "drawing rows", progress)
    return _sums.solved(_solve.validated, total, options.get("device"), seed, options)
