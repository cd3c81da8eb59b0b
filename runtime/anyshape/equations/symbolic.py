"""Operations of equations on elements that are sizes: numbers, dims and conditions, in arrays of dtype object.

In: an operation and its operands. Out: its elements, `NOTHING` among them where nothing is known. Raises UnknownElement where an element
that is needed is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape import dims
from anyshape.dims import Cond, Dim, Size
from anyshape.equations.exact_floats import ExactFloat, exact_element
from anyshape.equations.expr import Apply, Reduce
from anyshape.equations.unknown import NOTHING, UnknownElement

Array = NDArray[Any]


_SYMBOLIC: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": dims.minimum,
    "max": dims.maximum,
    "eq": dims.eq,
    "ne": dims.ne,
    "lt": dims.lt,
    "le": dims.le,
    "gt": dims.gt,
    "ge": dims.ge,
    "and": dims.and_,
    "or": dims.or_,
    "not": dims.not_,
    "abs": lambda a: dims.maximum(a, -a),
    "wrap": lambda i, n: dims.select(dims.lt(i, 0), i + n, i),
    "within": lambda i, n: i,
    "trunc_div": lambda a, b: _truncated(a, b),
}


DECIDING = {"and": False, "or": True}
"""Operations of truths, and the truth of one operand that decides each of them where nothing is known of the other"""


def _truncated(a: Size, b: Size) -> Size:
    """Division towards zero by what is known to have a sign: of what is not negative, less that of the opposite of what is negative."""
    if dims.lt(b, 0) is True:
        a, b = -a, -b
    if dims.gt(b, 0) is True:
        return dims.maximum(a, 0) // b - dims.maximum(-a, 0) // b
    raise UnknownElement("a truncating division by a value whose sign is not known")


def _elementwise(f: Callable[..., Any], *args: Array, deciding: bool | None = None) -> Array:
    broadcast = np.broadcast_arrays(*args)
    out = np.empty(broadcast[0].shape, object)
    for at in np.ndindex(out.shape):
        items = [b[at] for b in broadcast]
        decides = deciding is not None and any(isinstance(v, bool) and v is deciding for v in items)
        out[at] = deciding if decides else NOTHING if any(v is NOTHING for v in items) else f(*items)
    return out


def select_symbolic(c: Array, a: Array, b: Array) -> Array:
    def choose(k: Any, x: Any, y: Any) -> Any:
        if k is NOTHING or (isinstance(k, Cond) and any(v is NOTHING or isinstance(v, ExactFloat) for v in (x, y))):
            return NOTHING
        return dims.select(k, x, y) if isinstance(k, Cond) else (x if k else y)

    broadcast = np.broadcast_arrays(c, a, b)
    out = np.empty(broadcast[0].shape, object)
    for at in np.ndindex(out.shape):
        out[at] = choose(*(x[at] for x in broadcast))
    return out


def decided(c: Array) -> tuple[Array, Array]:
    """Two masks of an array of conditions: which hold, and which are not known to hold or not."""
    c = np.asarray(c, object)
    known = np.array([isinstance(k, (bool, np.bool_)) for k in c.flat], bool).reshape(c.shape)
    return np.where(known, c, False).astype(bool), ~known


def _on_floats(e: Apply, args: list[Array]) -> Array:
    """An operation with floats: on the elements that are numbers, and on those that sizes decide where that is exact; nothing is known of
    the others."""
    from anyshape.equations.numeric import apply_numeric

    broadcast = np.broadcast_arrays(*args)
    out = np.full(broadcast[0].shape, NOTHING, object)
    known = [at for at in np.ndindex(out.shape) if all(isinstance(b[at], (bool, int, float)) for b in broadcast)]
    decided_by_sizes = False
    for at in np.ndindex(out.shape):
        items = [b[at] for b in broadcast]
        if any(isinstance(v, (Dim, ExactFloat)) for v in items):
            out[at] = exact_element(e, items)
            decided_by_sizes = decided_by_sizes or out[at] is not NOTHING
    if not known and not decided_by_sizes:
        raise UnknownElement(f"{e.op} of symbols")
    if not known:
        return out
    operands = [
        np.array([b[at] for at in known], None if a.dtype is None else a.dtype.computed)
        for a, b in zip(e.args, broadcast)
    ]
    for at, value in zip(known, apply_numeric(e, operands).tolist()):
        out[at] = value
    return out


def apply_symbolic(e: Apply, args: list[Array]) -> Array:
    if any(a.dtype is not None and a.dtype.is_float for a in (e, *e.args)):
        return _on_floats(e, args)
    if e.op == "cast":
        assert e.dtype is not None
        if (
            e.dtype.is_integer
            and e.args[0].dtype is not None
            and (e.args[0].dtype.is_integer or e.args[0].dtype.is_bool)
        ):
            return _elementwise(
                lambda v: dims.select(v, 1, 0) if isinstance(v, Cond) else int(v) if isinstance(v, bool) else v, *args
            )
        if e.dtype.is_bool:
            return _elementwise(lambda v: v if isinstance(v, (bool, Cond)) else dims.ne(v, 0), *args)
        raise UnknownElement(f"a cast to {e.dtype}")
    if e.op == "div" and e.dtype is not None and e.dtype.is_integer:
        return _elementwise(_truncated, *args)
    f = _SYMBOLIC.get(e.op)
    if f is None:
        raise UnknownElement(f"{e.op} of symbols")
    return _elementwise(f, *args, deciding=DECIDING.get(e.op))


def fold_symbolic(e: Reduce, body: Array, keep: Array, axes: tuple[int, ...]) -> Array:
    folds: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
        "sum": (0, lambda a, b: a + b),
        "prod": (1, lambda a, b: a * b),
        "max": (None, dims.maximum),
        "min": (None, dims.minimum),
        "any": (False, dims.or_),
        "all": (True, dims.and_),
    }
    if e.kind not in folds or not all(isinstance(k, (bool, np.bool_)) for k in keep.flat):
        raise UnknownElement(f"{e.kind} of symbols")
    if any(v is NOTHING or isinstance(v, ExactFloat) for v in body.flat):
        raise UnknownElement(f"{e.kind} of what is not known")
    start, step = folds[e.kind]
    shape = tuple(1 if a in axes else n for a, n in enumerate(body.shape))
    out = np.full(shape, start, object)
    for at in np.ndindex(body.shape):
        if keep[at]:
            to = tuple(0 if a in axes else i for a, i in enumerate(at))
            out[to] = body[at] if out[to] is None else step(out[to], body[at])
    if any(v is None for v in out.flat):
        raise UnknownElement(f"{e.kind} of nothing")
    return out
