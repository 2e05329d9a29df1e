# SPDX-License-Identifier: Apache-2.0
# Made by scripts/make-python-types.
"""kedge's C++ library; use it through the package 'kedge'."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, overload

import numpy
from numpy.typing import NDArray
import torch

__version__: str


def require_other_file(output: object, input: object, in_place: bool | None = None) -> None: ...

def fit_options() -> list[dict[str, Any]]:
    """The options of fit: name, help, type, choices, default."""

def attach_options() -> list[dict[str, Any]]:
    """The same for attach."""

def match_options() -> list[dict[str, Any]]:
    """The same for match."""

def compare_options() -> list[dict[str, Any]]:
    """The same for compare."""

def retrieve_options() -> list[dict[str, Any]]:
    """The same for retrieve."""

def head_options() -> list[dict[str, Any]]:
    """The same for the heads of stitch."""

def devices() -> list[dict[str, Any]]:
    """
    The processor, then every usable GPU: a list of dicts with device, name and memory_bytes.
    """

def threads() -> int:
    """How many processor threads kedge uses."""

def set_threads(count: int) -> None:
    """Set how many processor threads to use from now on, 1 or more."""

class RelativeMap:
    """
    x -> RR(x), the similarities of an encoder's embedding to its anchors: the way into the shared space. Never changes; threads may share it.
    """

    def __init__(self, space: str, similarity: str, weight: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], bias: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], mean: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        A map of your own; docs/format.md says what weight, bias and mean hold for each similarity.
        """

    @property
    def space(self) -> str:
        """The encoder's name."""

    @property
    def similarity(self) -> str:
        """
        How embeddings are compared with anchors: wip, cosine, euclidean, inner, angular or manhattan.
        """

    @property
    def n_features_in(self) -> int:
        """Dimension of the embeddings."""

    @property
    def n_anchors(self) -> int:
        """Number of anchors, which is the dimension of the shared space."""

    @property
    def weight(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None), writable=False)]:
        """
        anchors x dim. With wip and inner, RR(x) = weight x + bias, unless there is a kernel. A read-only view.
        """

    @property
    def bias(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), writable=False)]:
        """One value per anchor."""

    @property
    def mean(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), writable=False)]:
        """Mean of the rows the map was made from."""

    @property
    def attached_by(self) -> str:
        """How the map was made: mixture, ridge, kernel or direct."""

    @property
    def r2(self) -> float | None:
        """
        How much of the variance of the anchors the map explains: for a ridge as generalised cross-validation estimates it, which holds no rows out; for a kernel at support rows left out one by one; for a mixture at support rows left out of their own anchors. None where there are no targets to compare with. Optimistic for a source, which helped to make what it is measured against, and worth nothing if its row_check is suspicious.
        """

    @property
    def translations(self) -> dict[str, float]:
        """
        How much of the variance of each other source's rows a translation is expected to explain, at rows that the fit has not seen. Empty for a bundle that was loaded, an adapter, and spaces attached later; unless rows are kept, also for maps by mixture and for similarities other than wip. A pair is left out if the support has fewer rows than values and less than nothing would be expected. A source that is replaced leaves those of the others.
        """

    @property
    def kernel(self) -> dict[str, Any] | None:
        """
        What makes the map non-linear, if it was made by kernel: 'width', 'strength' and 'whitening' as they were chosen, and the arrays 'whitener' (None for the identity), 'rows' and 'coefficients'; docs/format.md has the formula. None for other maps.
        """

    @property
    def row_check(self) -> dict[str, Any] | None:
        """
        Whether its rows are those of the other spaces: 'found_first' is the share of 'rows' that find themselves first 'among' so many, in rows that were held out; 'suspicious' where that is no better than chance or another order of rows fits better, for all rows or for those of 'block', a first row and an end (None: the last row); 'same_as' names another space with the very same rows. None where there were too few rows to tell.
        """

    @property
    def ridge(self) -> float | None:
        """Strength of the ridge if the map was made by one; otherwise None."""

    def transform_file(self, input: object, output: object, *, rows: object | None = None, device: str = 'cpu', precision: str = 'fp32', normalize: bool = False, in_place: bool = False, progress: object = False) -> None:
        """
        Stream a file's rows into another; memory use does not grow with the rows.

        Parameters
        ----------
        input : path
            Embeddings: .npy, .safetensors#tensor, .fvecs or .parquet#column.
        output : path
            Where results go, one row per input row: a float32 .npy, or a .parquet, which keeps the other columns of a Parquet
            input.
        rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
            Rows to take; all by default.
        device, precision : str
            Where to compute, and how precisely a GPU does.
        normalize : bool
            Whether to divide every result by its length; a row of zeros stays one.
        in_place : bool
            Whether output may replace the file of input, once it is whole.
        progress : bool or callable
            As for fit.
        """

    def transform(self, X: object | None, out: object | None = None, *, normalize: bool = False) -> Any:
        """
        Return the rows of X in the shared space, rows x anchors, as float32.

        Parameters
        ----------
        X : array, tensor, column or path
            Embeddings of any float type and layout; float32 in C order is not copied. A tensor gives a tensor.
        out : array of float32, optional
            Where to write the result, in C order.
        normalize : bool
            Whether to divide every result by its length; a row of zeros stays one.

        Raises
        ------
        ValueError
            For rows of the wrong length, and for NaN or infinity; the message names the row.
        """

    def __call__(self, X: object | None, out: object | None = None, *, normalize: bool = False) -> Any:
        """The same as transform."""

    def to_torch(self, *, normalize: bool = False) -> torch.nn.Module:
        """
        The map as a torch module: nn.Linear for wip and inner, a kedge module for others and for kernels. With normalize, results have length 1.
        """

    def to_onnx(self, path: object, *, normalize: bool = False, in_place: bool = False) -> None:
        """
        Write the map as an ONNX file with input 'x' and output 'rr', of length 1 with normalize. Replaces only what was exported before, unless in_place.
        """

    def __repr__(self) -> str: ...

    def __copy__(self) -> RelativeMap: ...

    def __deepcopy__(self, memo: dict[int, Any]) -> RelativeMap: ...

    def __getstate__(self) -> tuple[str, str, Annotated[NDArray[numpy.float32], dict(shape=(None, None), writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), writable=False)], tuple[str, tuple[float, float, float] | None, tuple[float, float, float] | None], tuple[float, Annotated[NDArray[numpy.float32], dict(shape=(None, None), writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None, None), writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None, None), writable=False)]] | None]: ...

    def __setstate__(self, arg: tuple[str, str, Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], tuple[str, tuple[float, float, float] | None, tuple[float, float, float] | None], tuple[float, Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)]] | None], /) -> None: ...

class Translator:
    """
    Turns one encoder's embeddings into those another would have made of the same inputs: y = weight x + bias, and more with a kernel. Made by Bundle.translator.
    """

    def transform_file(self, input: object, output: object, *, rows: object | None = None, device: str = 'cpu', precision: str = 'fp32', normalize: bool = False, in_place: bool = False, progress: object = False) -> None:
        """
        Stream a file's rows into another; memory use does not grow with the rows.

        Parameters
        ----------
        input : path
            Embeddings: .npy, .safetensors#tensor, .fvecs or .parquet#column.
        output : path
            Where results go, one row per input row: a float32 .npy, or a .parquet, which keeps the other columns of a Parquet
            input.
        rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
            Rows to take; all by default.
        device, precision : str
            Where to compute, and how precisely a GPU does.
        normalize : bool
            Whether to divide every result by its length; a row of zeros stays one.
        in_place : bool
            Whether output may replace the file of input, once it is whole.
        progress : bool or callable
            As for fit.
        """

    @property
    def source(self) -> str:
        """The encoder it translates from."""

    @property
    def target(self) -> str:
        """The encoder it translates to."""

    @property
    def n_features_in(self) -> int:
        """Dimension of the source's embeddings."""

    @property
    def n_features_out(self) -> int:
        """Dimension of the target's embeddings."""

    @property
    def weight(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None), writable=False)]:
        """dim of the target x dim of the source. A read-only view."""

    @property
    def bias(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), writable=False)]:
        """One value per value of the target."""

    @property
    def mean(self) -> NDArray[numpy.float32] | None:
        """What a kernel takes off the source's embeddings; None without one."""

    @property
    def r2(self) -> float | None:
        """
        How much of the variance of the target's rows it explains at support rows left out, as cross-validation estimates it; None unless the bundle keeps rows.
        """

    @property
    def kernel(self) -> dict[str, Any] | None:
        """
        What makes it non-linear, as RelativeMap.kernel; None where it is linear.
        """

    def transform(self, X: object | None, out: object | None = None, *, normalize: bool = False) -> Any:
        """
        Return the rows of X as the target encoder would have embedded the same inputs; with normalize, of length 1. X as for RelativeMap.transform.
        """

    def __call__(self, X: object | None, out: object | None = None, *, normalize: bool = False) -> Any:
        """The same as transform."""

    def to_torch(self, *, normalize: bool = False) -> torch.nn.Module:
        """
        The translator as a torch nn.Linear, or a kedge module with a kernel; with normalize, followed by a division by the length.
        """

    def to_onnx(self, path: object, *, normalize: bool = False, in_place: bool = False) -> None:
        """
        Write the translator as an ONNX file with input 'x' and output 'y', of length 1 with normalize. Replaces only what was exported before, unless in_place.
        """

    def __repr__(self) -> str: ...

@overload
def id_numbers(offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> NDArray[numpy.int64]: ...

@overload
def id_numbers(offsets: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> NDArray[numpy.int64]:
    """
    The numbers of text ids that lie in memory as in a column of Arrow: text i is bytes[offsets[i]:offsets[i + 1]].
    """

def draw_keys(numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]:
    """
    What the support is drawn by: rows with the smallest keys of their id numbers are in it.
    """

class Moments:
    """
    What a fit needs to know of rows it does not keep: joint counts, means and second moments of one or more spaces.
    With `support`, also the support rows, drawn by the ids of the rows.

    Sum up parts of the rows wherever they are, add the parts in any order, and fit from the sum:

    >>> parts = [kedge.Moments({"a": A, "b": B}, ids=ids, support=5000) for A, B, ids in shards]
    >>> bundle = kedge.fit(moments=sum(parts))
    >>> bundle.attach("c", moments=kedge.Moments({"c": C}, ids=ids, support=bundle.support_ids))

    Parameters
    ----------
    spaces : dict, optional
        As for fit: rows to begin with. Without it there are none yet.
    rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
        Which rows to add; all by default.
    ids : array of int or list of str, optional
        An id for each row of the arrays or files; needed where `support` is given. No two rows may have the same.
    support : int or array of int, optional
        How many support rows to draw: the same ones whatever the order and the parts of the rows. Or the ids of the rows to
        keep, in their order, as in bundle.support_ids. By default none are kept.
    seed : int
        Draws other support rows.
    progress : bool or callable
        As for fit.
    """

    def __init__(self, spaces: object | None = None, *, rows: object | None = None, ids: object | None = None, support: object | None = None, seed: int = 0, progress: object = False) -> None: ...

    def add(self, spaces: object, *, rows: object | None = None, ids: object | None = None, progress: object = False) -> None:
        """
        Add parallel rows of the same spaces, and their ids if support rows are kept.
        """

    def merge(self, other: Moments) -> None:
        """
        Add the moments of other rows of the same spaces. Raises ValueError for an id that both have.
        """

    def __add__(self, other: Moments) -> Moments: ...

    def __radd__(self, other: int) -> Moments: ...

    @property
    def rows(self) -> int:
        """How many rows there are."""

    @property
    def spaces(self) -> dict[str, int]:
        """The number of values of every space by its name."""

    @property
    def support_ids(self) -> NDArray[numpy.int64]:
        """
        The ids of the support rows so far, in their order; of given ids, those found.
        """

    def support(self, space: str) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None))]:
        """The support rows of one space, in the order of support_ids."""

    def mean(self, space: str) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """The mean of one space, in float64."""

    def covariance(self, space: str, other: str | None = None) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]:
        """
        The covariance of one space, or of its values with those of another, in float64.
        """

    def save(self, path: object, *, in_place: bool = False) -> None:
        """
        Write the file that 'kedge moments' writes. Replaces only moments, unless in_place.
        """

    @staticmethod
    def load(path: object) -> Moments:
        """Read a file of moments. Raises OSError for anything else."""

    def __repr__(self) -> str: ...

    def __copy__(self) -> Moments: ...

    def __deepcopy__(self, memo: dict[int, Any]) -> Moments: ...

    def __getstate__(self) -> object: ...

    def __setstate__(self, arg: object, /) -> None: ...

def load_map(path: object, space: str) -> RelativeMap: ...

class Bundle:
    """
    What fit learns and attach extends: the mixture, the rows it mixes, and the map of every space. Made by kedge.fit and kedge.load.
    """

    @property
    def spaces(self) -> dict[str, RelativeMap]:
        """The map of every space by its name: the sources, then attached ones."""

    @property
    def sources(self) -> list[str]:
        """The spaces the bundle was fitted on."""

    @property
    def mixture(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None, None), writable=False)]:
        """P, anchors x support. A read-only view."""

    @property
    def targets(self) -> NDArray[numpy.float32] | None:
        """
        What ridge and kernel regress, support x anchors; None if neither is possible.
        """

    @property
    def support_ids(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,), writable=False)]:
        """
        Row numbers of the support in the arrays or files; their ids if it was drawn by id.
        """

    @property
    def by_id(self) -> bool:
        """Whether support_ids are ids of rows, and not their numbers."""

    @property
    def history(self) -> dict[str, NDArray[numpy.float64]]:
        """
        The losses of every epoch by name (total, symnce, coverage, orthogonality, length) if anchors were learned; otherwise empty. pandas.DataFrame(bundle.history) is a table.
        """

    @property
    def refine_losses(self) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
        """
        Loss on held-out rows: before refinement, then after each of its epochs.
        """

    @property
    def method(self) -> str:
        """How the anchors were found."""

    @property
    def similarity(self) -> str: ...

    @property
    def n_anchors(self) -> int:
        """Number of anchors, which is the dimension of the shared space."""

    @property
    def seed(self) -> int:
        """The seed it was made with."""

    @property
    def kedge_version(self) -> str:
        """The version of kedge that made it."""

    def save(self, path: object, *, in_place: bool = False) -> None:
        """
        Write the bundle as the command does; an older file stays until the new one is complete. Replaces only bundles, unless in_place.
        """

    @staticmethod
    def load(path: object) -> Bundle:
        """
        Read a bundle written by 'save' or the command. Raises OSError for anything else.
        """

    def __getitem__(self, space: str) -> RelativeMap:
        """The map of one space."""

    def __contains__(self, space: str) -> bool: ...

    def translator(self, source: str, target: str) -> Translator:
        """From one space's embeddings to another's."""

    def attach(self, name: str, X: object | None = None, *, rows: object | None = None, support_rows: bool = False, attach: object | None = None, ridge: object = 'auto', device: object = 'cpu', replace: bool = False, moments: object | None = None, progress: object = False, effort: object = 'fast', kernel_width: object = 'auto', kernel_strength: object = 'auto', kernel_whitening: object = 'auto', robust: bool = False, ids: object | None = None, pairs: object | None = None) -> RelativeMap:
        """
        Add an encoder without changing the anchors: its map is kept under `name` and returned.

        Parameters
        ----------
        name : str
            What to call the encoder.
        X : array or path, optional
            Its embeddings of the inputs the bundle was fitted on, in the same order; or, with support_rows, of the support rows
            alone, in the order of `support_ids`. May be left out if `moments` carry its support rows.
        rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
            Rows to compute its mean and covariance from; all by default.
        support_rows : bool
            Whether X holds only the support rows.
        attach : 'mixture', 'ridge', 'kernel' or 'auto', optional
            How to make its map; by default as for the bundle's other spaces. 'auto' takes ridge or kernel, whichever has the
            smaller leave-one-out error.
        ridge : 'auto' or float
            Strength of the ridge; 'auto' chooses it by cross-validation.
        device : str
            Where to compute.
        effort : 'fast' or 'best'
            'best' makes its map by kernel, if the bundle has targets and `attach` is not given.
        kernel_width, kernel_strength, kernel_whitening : 'auto' or float
            Of a map by kernel; 'auto' chooses them by leave-one-out error.
        robust : bool
            Leave out support rows that are other inputs than the bundle's, as the other rows tell; for a map by ridge or
            kernel.
        replace : bool
            Whether a space of the same name may be replaced.
        moments : Moments, optional
            Take its statistics from these moments of its rows instead of from X; and its support rows, if there is no X and
            they were made with support=bundle.support_ids.
        progress : bool or callable
            As for fit.
        ids : array of int or list of str, optional
            An id for each row of X, to find the support rows by; needed if the support was drawn by id.
        pairs : array of int or path, optional
            Which rows are which, if X is not in the order of the fit: two columns, row numbers of the first space that was
            fitted and of X. A ridge makes do with some of the support rows.

        Returns
        -------
        RelativeMap
        """

    def __repr__(self) -> str: ...

    def __copy__(self) -> Bundle: ...

    def __deepcopy__(self, memo: dict[int, Any]) -> Bundle: ...

    def __getstate__(self) -> bytes: ...

    def __setstate__(self, arg: bytes, /) -> None: ...

def fit(spaces: list[tuple[str, Any]], rows: object | None, support_ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, progress: object | None, options: Mapping[str, Any], moments: object | None, support_rows: bool, ids: object | None, pairs: object | None) -> Bundle: ...

def validate(spaces: list[tuple[str, Any]], rows: object | None, progress: object | None, options: Mapping[str, Any]) -> list[dict[str, Any]]: ...

class Likeness:
    """
    Whether rows could be of the model that made some known rows.

    It goes by directions alone, so that it makes no difference whether rows are normalised. `kedge inspect FILE --like`
    does the same for files.

    Parameters
    ----------
    known : array, path or Moments
        A thousand rows or more that are known to be of the model, or the moments of such rows.
    """

    def __init__(self, known: object) -> None: ...

    def distances(self, X: object) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), writable=False)]:
        """
        For each row: on average 0 for rows such as those known, and 1 for rows of a model that has nothing to do with them. Below LIKE a row is like the known ones, above UNLIKE it is of another model.
        """

    @property
    def dim(self) -> int:
        """The number of values a row."""

    @property
    def length(self) -> float:
        """Root mean square of the known rows' lengths."""

    @property
    def can_tell(self) -> bool:
        """Whether rows of other models stand out from the known ones."""

    LIKE: float = 0.5

    UNLIKE: float = 0.7

class Match:
    """
    Which rows of two spaces embed the same input, and whether that is to be trusted. Made by match.
    """

    @property
    def verdict(self) -> str:
        """
        'matched'; 'disjoint' if the rotation can be trusted, but the spaces hold different inputs; 'not-matched'; or 'made-worse' if the known pairs alone are better.
        """

    @property
    def trusted(self) -> bool:
        """Whether pairs or rotation are good for use: matched or disjoint."""

    @property
    def sentence(self) -> str:
        """The verdict with the numbers behind it."""

    @property
    def pairs(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None, 2), writable=False)]:
        """
        Row numbers of the first space and of the second, one pair in each row, surest first: rows that are each other's nearest. None but the known ones if the verdict is made-worse. A read-only view.
        """

    @property
    def chances(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,), writable=False)]:
        """How likely each pair is right, 0 to 1."""

    @property
    def agreement(self) -> float:
        """Share of rows that two independent runs send to the same row."""

    @property
    def mutual(self) -> float:
        """Share of rows that are the nearest of their nearest."""

    @property
    def runs(self) -> int:
        """How many were made."""

    @property
    def kept_back(self) -> dict[str, Any] | None:
        """
        How known pairs that took no part are found: 'pairs', how many these are; the share that comes first by the other known pairs alone, 'found_before', and matched, 'found_after'; 'mrr_before' and 'mrr_after'. None if too few are known.
        """

    @property
    def rotation(self) -> tuple[Annotated[NDArray[numpy.float32], dict(shape=(None, None), writable=False)], tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,), writable=False)], Annotated[NDArray[numpy.float32], dict(shape=(None,), writable=False)]]]:
        """
        (weight, (first_mean, second_mean)): a row x of the first space goes to weight (x - first_mean) + second_mean in the second.
        """

    def __repr__(self) -> str: ...

def match(first: object, second: object, pairs: object | None = None, *, disjoint: object = False, force: object = False, runs: object = 8, seed: object = 0, progress: object = False) -> Match:
    """
    Find which rows of two spaces embed the same input, with a few known pairs or none.

    Parameters
    ----------
    first, second : array or path
        Embeddings by two encoders, in any order.
    pairs : array of int or path, optional
        Rows that are known to belong together: two columns of row numbers. Five help; of 10 or more, some are kept back to
        judge the result by.
    disjoint : bool
        Whether the spaces hold different inputs: look for the rotation between them, and for no pairs.
    force : bool
        Whether to give the pairs found even if the verdict is against them.
    runs : int
        How often to try at most; two runs that agree end the search.
    seed : int
        Same seed, same pairs.
    progress : bool or callable
        As for fit.

    Returns
    -------
    Match
        Its pairs are as fit takes them. A warning says so if the verdict is against them.

    Raises
    ------
    ValueError
        For fewer than 200 rows of a space (100 with ten pairs), rows that are all the same, NaN or infinity, and pairs
        that are not there or name a row twice.
    """

def compare(A: object, B: object, *, rows: object | None = None, recall_at: object = [1, 5, 10], neighbors: object = 10, device: object = 'cpu', progress: object = False) -> dict[str, Any]:
    """
    Measure how well two encoders agree in the shared space: does row i of A find row i of B?

    Parameters
    ----------
    A, B : array or path
        Rows of the same inputs in the same order, of the same dimension.
    rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
        Rows to compare; all by default.
    recall_at : list of int
        Ranks to report recall at.
    neighbors : int
        Neighbours to count for the k-NN overlap.
    device : str
        Where to compute ranks.
    progress : bool or callable
        As for fit.

    Returns
    -------
    dict
        rows, dim, mrr, recall@K for each K of recall_at, nmse, rr_std_a, rr_std_b, paired_cosine, linear_cka, svcca,
        effective_rank_a, effective_rank_b and knn_overlap@neighbors (None if it cannot be measured).
    """

def retrieve(queries: object, documents: object, qrels: object, *, rows: object | None = None, exclude: object | None = None, k: object = 10, recall_k: object = 100, similarity: object = 'cosine', each: bool = False, progress: object = False) -> dict[str, Any]:
    """
    Measure a search with judged queries: are the documents at the top the relevant ones?

    Parameters
    ----------
    queries, documents : array or path
        Rows of the same space.
    qrels : array of integers or path
        Judgements, one in each row: query and document, by their row, and grade. 0 means not relevant; documents that are
        not judged are not relevant either.
    rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
        Documents to search; all by default.
    exclude : the same, optional
        Documents to leave out of the search, such as the support of a translation.
    k : int
        Documents of each query that nDCG and MRR look at.
    recall_k : int
        Documents of each query that recall looks at.
    similarity : str
        How to compare a query with a document: cosine or inner.
    each : bool
        Whether to return the scores of each query too.
    progress : bool or callable
        As for fit.

    Returns
    -------
    dict
        dim; queries, those that have a relevant document among the ones searched, and queries_without, those that have none
        and do not count; documents, relevant and left_out (judgements of documents that were not searched); and means over
        the queries: ndcg@k (gain is the grade, discount log2(rank + 1)), recall@recall_k and mrr@k. Of equally similar
        documents the first in the file is first. With each=True also each, a dict of lists: query, the rows of the queries
        that count, and their scores by the same names.
    """

STITCH_METHODS: list[str] = ...

SWEEP_METHODS: list[str] = ...

STITCH_SAMPLES: int = 10

def stitch(spaces: list[tuple[str, Any]], train: object, test: object, labels: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, targets: object | None, target_shape: Sequence[int], plan: dict[str, Any], folder: str | None, fresh: bool, progress: object | None) -> str: ...
