"""Stands in for NumPy where there is none for the interpreter: the part of it by which a graph is built, a plan is made and equations are
interpreted, in Python alone.

In and out: arrays, with the dtypes, the promotion, the broadcasting and the wrap-around of NumPy. Arrays are always copies, never views of
each other, and their elements are a list. A function that is missing is an AttributeError that names it.
"""

from __future__ import annotations

import math
from typing import NoReturn

from . import lib as lib
from . import typing as typing
from .arrays import asarray, broadcast_arrays, broadcast_to, empty, full, ndarray, ndindex
from .dtypes import dtype, generic, promote_types, result_type
from .functions import all_ as all
from .functions import any_ as any
from .functions import (
    arange,
    argmin,
    argsort,
    array_equal,
    clip,
    concatenate,
    copyto,
    errstate,
    flatnonzero,
    frombuffer,
    fromiter,
    iinfo,
    nan_to_num,
    ones,
    ones_like,
    prod,
    tile,
    unique,
    unravel_index,
    where,
    zeros,
    zeros_like,
)
from .functions import max_ as max
from .functions import min_ as min
from .functions import sum_ as sum
from .scalars import (
    bool_,
    float16,
    float32,
    float64,
    floating,
    int8,
    int16,
    int32,
    int64,
    integer,
    object_,
    str_,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .ufuncs import ALL as _UFUNCS
from .ufuncs import ufunc

__version__ = "0 (a stand-in)"
inf, nan, pi, newaxis = math.inf, math.nan, math.pi, None
True_, False_ = bool_(True), bool_(False)
array = ascontiguousarray = asarray
uintp, intp = uint64, int64
globals().update(_UFUNCS)


def __getattr__(name: str) -> NoReturn:
    raise AttributeError(f"the page has a stand-in for NumPy, which has no {name}")
