# SPDX-License-Identifier: Apache-2.0
"""A scikit-learn transformer into the shared space."""
from __future__ import annotations

import functools
import numbers
import os
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._extras import install

try:
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
    from sklearn.utils.validation import check_array, check_is_fitted, validate_data
except ImportError as error:
    raise ImportError(f"kedge.RelativeTransformer needs scikit-learn 1.6 or newer; {install('sklearn')} "
                      f"({error})") from None

from . import _fit
from ._core import Bundle, RelativeMap
from ._typing import Path

if TYPE_CHECKING:
    from typing_extensions import Self

FLOATS = ["float64", "float32", "float16"]  # used as they are; everything else becomes the first


@functools.lru_cache(maxsize=8)
def load(path: str, changed: int) -> Bundle:
    return _fit.load(path)


def bundle_of(bundle: Bundle | Path) -> Bundle:
    """A bundle, read once and again only if its file has changed."""
    if isinstance(bundle, Bundle):
        return bundle
    # kedge.load refuses what is no path or does not exist, in its own words.
    if not isinstance(bundle, (str, os.PathLike)) or not os.path.exists(bundle):
        return _fit.load(bundle)
    path = os.path.abspath(bundle)  # a relative path means another file in another folder
    return load(path, os.stat(path).st_mtime_ns)


def is_count(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


class RelativeTransformer(ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]  # scikit-learn has no types
                          TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Turns embeddings into their relative representation: their similarities to anchors.

    With `bundle` and `space`, it maps one encoder's embeddings into a space that several encoders share. There is
    nothing left to learn, so it counts as fitted from the start. What follows it in a pipeline then works with another
    encoder:

    >>> pipe = make_pipeline(RelativeTransformer(bundle=bundle, space="vit"), LogisticRegression()).fit(X_vit, y)
    >>> pipe.set_params(relativetransformer__space="rex").predict(X_rex)

    Without a bundle, fit learns anchors from the rows it is given, as kedge.fit does with one space. If there are fewer
    rows than `anchors` (or `support`), or they span fewer directions (method 'consensus'), it makes as many as it can.

    Parameters
    ----------
    bundle : Bundle or path, optional
        From kedge.fit, or the file that Bundle.save or the command wrote.
    space : str, optional
        The encoder whose embeddings X holds: with a bundle, one of its spaces; without, the name to use in `bundle_`.
    method, similarity, anchors, ...
        As for kedge.fit; ignored if a bundle is given.

    Attributes
    ----------
    bundle_ : Bundle
        What fit learned, if no bundle was given; bundle_.attach adds other encoders.
    n_features_in_ : int
        Dimension of the embeddings of the encoder in use.
    feature_names_in_ : array of str
        Names of the columns seen in fit, if they had any and no bundle was given.

    Results are float32, whatever the type of X.
    """

    def __init__(self, *, bundle: Bundle | Path | None = None, space: str | None = None, method: str = "consensus",
                 similarity: str = "wip", anchors: int | None = None, support: int | None = None,
                 support_select: str = "random", keep: int = 0, seed: int = 0, shrinkage: float | str = 0.15,
                 epsilon: float = 5e-8, attach: str | None = None, ridge: float | str = "auto", epochs: int = 95,
                 batch: int = 1024, lr: float = 0.03, power: float = 0.5, device: str = "cpu", effort: str = "fast",
                 kernel_width: float | str = "auto", kernel_strength: float | str = "auto",
                 kernel_whitening: float | str = "auto") -> None:
        self.bundle = bundle
        self.space = space
        self.method = method
        self.similarity = similarity
        self.anchors = anchors
        self.support = support
        self.support_select = support_select
        self.keep = keep
        self.seed = seed
        self.shrinkage = shrinkage
        self.epsilon = epsilon
        self.attach = attach
        self.ridge = ridge
        self.epochs = epochs
        self.batch = batch
        self.lr = lr
        self.power = power
        self.device = device
        self.effort = effort
        self.kernel_width = kernel_width
        self.kernel_strength = kernel_strength
        self.kernel_whitening = kernel_whitening

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn anchors from the rows of X; with a bundle, only check that X fits. y is ignored."""
        if self.bundle is not None:
            self._require_fits(check_array(X, dtype=FLOATS, estimator=self, input_name="X"))
            return self
        X = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        options = self.get_params(deep=False)
        del options["bundle"], options["space"]
        # Numbers are cut down to what there is; fit refuses anything else.
        most = len(X)
        if is_count(self.support):
            most = options["support"] = min(options["support"], most)
        if is_count(self.anchors):
            options["anchors"] = min(options["anchors"], most)
        self.bundle_ = _fit.fit({self.space or "X": X}, **options)
        return self

    def transform(self, X: Any) -> NDArray[np.float32]:
        """The rows of X in the shared space, rows x anchors, as float32."""
        check_is_fitted(self)
        if self.bundle is None:
            relative_map, X = self._map(), validate_data(self, X, dtype=FLOATS, reset=False)
        else:
            X = check_array(X, dtype=FLOATS, estimator=self, input_name="X")
            relative_map = self._require_fits(X)
        rows: NDArray[np.float32] = relative_map.transform(X)
        return rows

    def _map(self) -> RelativeMap:
        if self.bundle is None:
            return self.bundle_[self.bundle_.sources[0]]
        bundle = bundle_of(self.bundle)
        if self.space not in bundle.spaces:
            raise ValueError(f"RelativeTransformer: space is {self.space!r}, expected one of the bundle's: "
                             f"{', '.join(bundle.spaces)}; add another encoder with bundle.attach(name, X)")
        return bundle[self.space]

    def _require_fits(self, X: Any) -> RelativeMap:
        relative_map = self._map()
        if X.shape[1] != relative_map.n_features_in:
            raise ValueError(f"X has {X.shape[1]} features, but RelativeTransformer is expecting "
                             f"{relative_map.n_features_in} features as input, as made by '{relative_map.space}'; were "
                             "they made by another encoder?")
        return relative_map

    # A property, since another space may be chosen after fit.
    @property
    def n_features_in_(self) -> int:
        if not self.__sklearn_is_fitted__():
            raise AttributeError("RelativeTransformer has no n_features_in_ before fit")
        return self._map().n_features_in

    @n_features_in_.setter
    def n_features_in_(self, value: Any) -> int:
        pass  # scikit-learn notes it while X is checked; the map knows it as well

    @property
    def _n_features_out(self) -> int:
        return self._map().n_anchors

    def __sklearn_is_fitted__(self) -> bool:
        return self.bundle is not None or hasattr(self, "bundle_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags
