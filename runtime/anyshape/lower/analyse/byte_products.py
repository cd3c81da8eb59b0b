"""Sums of products of bytes over taps: a byte that a place sees, less a number, times a factor that is the same at all places.

In: a reduction over taps, and the variable that runs along the lanes. Out: its parts, or None if it is another sum.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.dtypes import I32
from anyshape.lower.analyse.magnitudes import is_short_integer
from anyshape.lower.ir.dag import DagNode, Load, LoopVar, Operation, Reduction, walk
from anyshape.lower.ir.padded import padded_load


@dataclass(frozen=True, slots=True)
class ByteProduct:
    """`(byte - point) * factor` in integers of 32 bits. `byte` is contiguous along the lanes; it is `outside` where its bounds do not hold
    (None: 0). `point` varies with nothing (None: 0), `factor` with the lanes and the taps alone."""

    byte: Load
    outside: DagNode | None
    point: DagNode | None
    factor: DagNode

    @property
    def unsigned(self) -> bool:
        return self.byte.dtype.kind == "uint"

    @property
    def fits_halves(self) -> bool:
        """Whether integers of 16 bits hold both what is multiplied and the factor."""
        return (self.point is None or _is_byte(self.point)) and _is_of_bytes(self.factor)


def byte_product(red: Reduction, lanes: LoopVar) -> ByteProduct | None:
    """The product that a reduction over taps adds up, if its bytes and its factors may be multiplied as bytes."""
    if red.kind != "sum" or red.dtype != I32:
        return None
    match red.body:
        case Operation("mul", (a, b)):
            fixed = {lanes, *red.variables}
            for moving, factor in ((a, b), (b, a)):
                if lanes in factor.domain and factor.domain <= fixed and _is_readable(factor):
                    return _product(moving, factor, lanes)
    return None


def _is_readable(n: DagNode) -> bool:
    """Whether a value may be computed ahead of the loops over places."""
    return all(not isinstance(m, Reduction) and (not isinstance(m, Load) or m.access.is_plain) for m in walk([n]))


def _is_of_bytes(n: DagNode) -> bool:
    """Whether a value is a byte or the difference of two."""
    match n:
        case Operation("sub", (a, b)):
            return _is_byte(a) and _is_byte(b)
    return _is_byte(n)


def _is_byte(n: DagNode) -> bool:
    """Whether a value is a wider integer that is a byte."""
    match n:
        case Operation("cast", (a,)):
            return is_short_integer(a) and a.dtype.bits == 8
    return False


def _product(moving: DagNode, factor: DagNode, lanes: LoopVar) -> ByteProduct | None:
    match moving:
        case Operation("sub", (Operation("cast", (value,)), point)) if not point.domain and _is_readable(point):
            return _of_byte(value, point, factor, lanes)
        case Operation("cast", (value,)):
            return _of_byte(value, None, factor, lanes)
    return None


def _of_byte(value: DagNode, point: DagNode | None, factor: DagNode, lanes: LoopVar) -> ByteProduct | None:
    padded = padded_load(value) if isinstance(value, Operation) else None
    byte = value if padded is None else padded.load
    if not isinstance(byte, Load) or not is_short_integer(byte) or byte.dtype.bits != 8:
        return None
    access = byte.access
    if access.checks or access.address.lets or access.address.coefficient(lanes) != 1:
        return None
    return ByteProduct(byte, None if padded is None else padded.outside, point, factor)
