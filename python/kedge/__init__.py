# SPDX-License-Identifier: Apache-2.0
"""kedge makes independently trained encoders speak one language.

>>> import kedge
>>> bundle = kedge.fit({"vit": X1, "rex": X2}, method="consensus")     # embeddings of the same inputs, row by row
>>> clip = bundle.attach("clip", X3)                                   # an encoder the fit never saw
>>> kedge.compare(bundle["vit"].transform(X1), clip.transform(X3))     # is the same input found across encoders?
"""
import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import plot as plot
    from ._core import Bundle as Bundle
    from ._core import Likeness as Likeness
    from ._core import Match as Match
    from ._core import Moments as Moments
    from ._core import RelativeMap as RelativeMap
    from ._core import Translator as Translator
    from ._core import __version__ as __version__
    from ._core import compare as compare
    from ._core import devices as devices
    from ._core import match as match
    from ._core import retrieve as retrieve
    from ._core import set_threads as set_threads
    from ._core import threads as threads
    from ._fit import fit as fit
    from ._fit import load as load
    from ._fit import load_map as load_map
    from ._fit import validate as validate
    from ._stitch import stitch as stitch
    from ._stitch import sweep as sweep
    from .sklearn import RelativeTransformer as RelativeTransformer

# Names are imported when they are used: 'import kedge' takes no time, and the report and kedge-encode work without the
# compiled module.
_HOME = {
    "Bundle": "_core", "Likeness": "_core", "Match": "_core", "Moments": "_core", "RelativeMap": "_core",
    "Translator": "_core", "__version__": "_core", "compare": "_core", "devices": "_core", "match": "_core",
    "retrieve": "_core", "set_threads": "_core", "threads": "_core",
    "fit": "_fit", "load": "_fit", "load_map": "_fit", "validate": "_fit", "stitch": "_stitch", "sweep": "_stitch",
    "RelativeTransformer": "sklearn", "plot": None,
}
# Only names that can be imported are listed: 'import *' and help() ask for every one.
_LISTED = {name for name in _HOME if _HOME[name] != "sklearn" or importlib.util.find_spec("sklearn") is not None}
__all__ = sorted(name for name in _LISTED if not name.startswith("_"))


def _name_blas_kernels() -> None:
    """OpenBLAS takes an x86 processor younger than itself for one of 2004, and multiplies at a quarter of its speed; it
    reads this name of kernels while it is loaded."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as processors:
            if " avx512vl " in processors.read(8192):
                os.environ.setdefault("OPENBLAS_CORETYPE", "SkylakeX")
    except OSError:
        pass


_name_blas_kernels()


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kedge' has no attribute '{name}'")
    if _HOME[name] is None:
        return importlib.import_module(f".{name}", __name__)
    try:
        home = importlib.import_module(f".{_HOME[name]}", __name__)
    except ImportError as error:
        if _HOME[name] != "sklearn":
            raise
        raise AttributeError(str(error)) from error  # hasattr and inspect expect this kind
    value = getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LISTED})
