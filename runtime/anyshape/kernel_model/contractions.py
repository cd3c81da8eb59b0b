"""What a contraction is, and what of it the matrix product reads as memory holds it: the one matcher, for equations and for the lowering.

In: a term, and `Terms` by which the matcher sees it: expressions of equations (`EXPRESSIONS`) or nodes of the graph that is scheduled. Out:
the contraction that the term is, or None. A contraction is a sum of products of two factors that both vary with what is summed over, and
each with a loop variable that the other lacks. Which op it came from does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import BF16, F16, F32, F64, I8, I32, I64, U8, DType
from anyshape.equations import Tensor
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Var
from anyshape.precision import Narrow

SUMS = frozenset((F32, F64, I32, I64))
"""The dtypes in which the matrix product adds up."""
WIDENED = frozenset(((F16, F32), (BF16, F32), (I8, F32)))
"""Dtypes of memory that the matrix product reads, each with the dtype that it widens them to."""

BYTES = frozenset((I8, U8))
"""Dtypes of memory that the matrix product multiplies as they are, in sums of i32."""


@dataclass(frozen=True, slots=True)
class FactorRounding:
    """How a precision rounds factors of f32 to the nearest number of `dtype`: by an `operation` of equations, which the matrix product does
    while it packs words, or without one by casts to `dtype` and back, of which the product reads what the first makes."""

    dtype: DType
    operation: str | None


FACTOR_ROUNDINGS: Mapping[Narrow, FactorRounding] = {
    "bf16": FactorRounding(BF16, "round_bf16"),
    "f16": FactorRounding(F16, None),
    "f16-chunked": FactorRounding(F16, "round_f16"),
}
"""What contractions of f32 multiply, by precision"""
ROUNDINGS: Mapping[str, DType] = {r.operation: r.dtype for r in FACTOR_ROUNDINGS.values() if r.operation is not None}
"""The operations that round a factor: both factors of a contraction have the same one, or none."""

T = TypeVar("T")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class Terms(Protocol[T, V_co]):
    """How the matcher sees the terms of one kind of graph."""

    def dtype(self, term: T) -> DType | None: ...

    def variables(self, term: T) -> Set[V_co]:
        """The loop variables that a term varies with."""

    def sum_of(self, term: T) -> tuple[tuple[V_co, ...], T] | None:
        """The variables and the body of a sum without a condition."""

    def arguments(self, operation: str, term: T) -> tuple[T, ...] | None:
        """Returns the arguments of a term that is an operation, else None."""

    def element_of(self, term: T) -> Tensor | None:
        """The tensor that a term is an element of, at a place that is no data."""

    def is_finite(self, term: T) -> bool:
        """Whether a term is a finite literal."""


@dataclass(frozen=True, slots=True)
class Contraction(Generic[T, V]):
    """The sum of the product of `factors` over `summed`."""

    term: T
    summed: tuple[V, ...]
    factors: tuple[T, T]


def contraction_of(terms: Terms[T, V], term: T) -> Contraction[T, V] | None:
    """The contraction that a term is."""
    total = terms.sum_of(term)
    if total is None or terms.dtype(term) not in SUMS:
        return None
    summed, body = total
    match terms.arguments("mul", body):
        case (a, b):
            of_a, of_b = terms.variables(a), terms.variables(b)
            if summed and set(summed) <= of_a & of_b and of_a - of_b and of_b - of_a:
                return Contraction(term, summed, (a, b))
    return None


def unrounded(terms: Terms[T, V], factor: T) -> T:
    """A factor without the rounding that the product does to it."""
    return next((wide for wide, _ in _roundings(terms, factor)), factor)


def rounded_to(terms: Terms[T, V], factor: T) -> DType | None:
    """What the product rounds a factor to."""
    return next((dtype for _, dtype in _roundings(terms, factor)), None)


def _roundings(terms: Terms[T, V], factor: T) -> Iterator[tuple[T, DType]]:
    for operation, dtype in ROUNDINGS.items():
        match terms.arguments(operation, factor):
            case (wide,):
                yield wide, dtype


def as_stored(terms: Terms[T, V], factor: T) -> T:
    """A factor as memory holds it: without the cast by which the product widens it."""
    match terms.arguments("cast", factor):
        case (stored,) if (terms.dtype(stored), terms.dtype(factor)) in WIDENED:
            return stored
    return factor


MOST_SCALES = 1 << 16
"""Bytes of a constant of scales, or of zero points, at most: all elements are looked at whenever a kernel is lowered."""


def is_of_scales(constant: NDArray[Any]) -> bool:
    """Whether a constant may be taken out of sums of its products: a sum of terms with a factor that is finite is the sum times that."""
    return constant.nbytes <= MOST_SCALES and constant.dtype == F32.numpy and bool(np.isfinite(constant).all())


def is_of_zeros(constant: NDArray[Any]) -> bool:
    """Whether a constant is a zero point that changes nothing."""
    return constant.nbytes <= MOST_SCALES and constant.dtype.kind in "iu" and not constant.any()


@dataclass(frozen=True, slots=True)
class QuantisationConstants:
    """Tensors of a kernel that are constants of finite scales, and of zeros."""

    scales: frozenset[Tensor]
    zeros: frozenset[Tensor]

    @classmethod
    def among(cls, constants: Mapping[Tensor, NDArray[Any]]) -> QuantisationConstants:
        return cls(
            frozenset(t for t, a in constants.items() if is_of_scales(a)),
            frozenset(t for t, a in constants.items() if is_of_zeros(a)),
        )


@dataclass(frozen=True, slots=True)
class ScaledFactor(Generic[T]):
    """A factor that is numbers times a scale."""

    numbers: T
    scale: T


def scaled_numbers(terms: Terms[T, V], factor: T, known: QuantisationConstants) -> ScaledFactor[T] | None:
    """A factor as numbers and their scale, if that is a known one."""
    match terms.arguments("mul", factor):
        case (a, b):
            for numbers, scale in ((a, b), (b, a)):
                tensor = terms.element_of(scale)
                if tensor in known.scales if tensor is not None else terms.is_finite(scale):
                    return ScaledFactor(without_zeros(terms, numbers, known), scale)
    return None


def without_zeros(terms: Terms[T, V], numbers: T, known: QuantisationConstants) -> T:
    """Numbers without a zero point of zeros."""
    match terms.arguments("sub", numbers):
        case (wide, zero):
            inner = terms.arguments("cast", zero)
            tensor = terms.element_of(zero if inner is None else inner[0])
            if tensor is not None and tensor in known.zeros:
                return wide
    return numbers


@dataclass(frozen=True, slots=True)
class ByteFactor(Generic[T]):
    """A factor that is a narrow integer less a zero point, if it has one; the latter does not vary with what is summed over."""

    stored: T
    zero: T | None


def codes_of(terms: Terms[T, V], factor: T, summed: tuple[V, ...]) -> ByteFactor[T] | None:
    """A factor as bytes and zero point: `i32(x) - z`, or `i32(x)`."""
    wide, zero = factor, None
    match terms.arguments("sub", factor):
        case (first, second) if not terms.variables(second) & set(summed):
            wide, zero = first, second
    match terms.arguments("cast", wide):
        case (stored,) if terms.dtype(stored) in BYTES and terms.dtype(wide) == I32:
            return ByteFactor(stored, zero)
    return None


class _Expressions:
    """Equations as they are stated. A variable counts whatever its extent is, so that what shares a kernel does not depend on which sizes
    are known; in the lowering's graph variables of one value are gone, and a product of one row is loops."""

    def dtype(self, term: Expr) -> DType | None:
        return term.dtype

    def variables(self, term: Expr) -> Set[Var]:
        return term.free

    def sum_of(self, term: Expr) -> tuple[tuple[Var, ...], Expr] | None:
        if isinstance(term, Reduce) and term.kind == "sum" and term.where is None:
            return term.vars, term.body
        return None

    def arguments(self, operation: str, term: Expr) -> tuple[Expr, ...] | None:
        return term.args if isinstance(term, Apply) and term.op == operation else None

    def element_of(self, term: Expr) -> Tensor | None:
        plain = isinstance(term, Read) and term.outside is None and all(isinstance(i, Const | Var) for i in term.index)
        return term.tensor if plain and isinstance(term, Read) else None

    def is_finite(self, term: Expr) -> bool:
        return isinstance(term, Const) and math.isfinite(term.value)


EXPRESSIONS: Terms[Expr, Var] = _Expressions()
