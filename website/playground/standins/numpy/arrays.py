"""Arrays: a list of elements, a shape, a dtype. Indexing, broadcasting, reading bits as another dtype."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

from .dtypes import BOOL, F64, OBJECT, dtype, generic, result_type

Shape = tuple[int, ...]
_CODES = {"b1": "?", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q",
          "f2": "e", "f4": "f", "f8": "d"}  # fmt: skip
REDUCTIONS: dict[str, Callable[..., Any]] = {}
"""The methods that functions of NumPy's have the names of, which `functions` puts here"""
OPERATORS: dict[str, Callable[..., Any]] = {}
"""Ufuncs by the special method that calls them, which `ufuncs` puts here"""


class ndarray:
    """An array. `data` has the elements in row-major order."""

    __slots__ = ("__weakref__", "data", "dtype", "shape")
    __array_priority__ = 0

    def __init__(self, data: list[Any], shape: Shape, of: dtype) -> None:
        if math.prod(shape) != len(data):
            raise ValueError(f"cannot reshape array of size {len(data)} into shape {shape}")
        self.data, self.shape, self.dtype = data, shape, of

    size = property(lambda self: len(self.data))
    ndim = property(lambda self: len(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: len(self.data) * self.dtype.itemsize)
    flat = property(lambda self: Flat(self))
    flags = property(lambda self: Flags())
    T = property(lambda self: self.transpose())
    strides = property(lambda self: tuple(s * self.dtype.itemsize for s in strides_of(self.shape)))
    base = None

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def setflags(self, **flags: bool) -> None:
        """Nothing is a view, so nothing is protected."""

    def astype(self, of: Any, copy: bool = True, **_: Any) -> ndarray:
        d = dtype(of)
        return ndarray(list(self.data) if d is self.dtype else d.elements(self.data), self.shape, d)

    def copy(self, order: str = "C") -> ndarray:
        return ndarray(list(self.data), self.shape, self.dtype)

    def reshape(self, *shape: Any, order: str = "C") -> ndarray:
        sizes = [int(n) for n in (shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape)]
        if -1 in sizes:
            rest = math.prod(n for n in sizes if n != -1)
            sizes[sizes.index(-1)] = self.size // rest if rest else 0
        return ndarray(list(self.data), tuple(sizes), self.dtype)

    def ravel(self) -> ndarray:
        return self.reshape(-1)

    def view(self, of: Any = None) -> ndarray:
        d = self.dtype if of is None else dtype(of)
        if d.kind == "U" or self.dtype.kind == "U":
            return self._characters(d)
        data = self.data if d is self.dtype else list(struct.unpack(f"<{self._count(d)}{_code(d)}", self.tobytes()))
        shape = self.shape if d.itemsize == self.itemsize else (*self.shape[:-1], -1)
        return (
            ndarray(list(data), self.shape, d) if shape == self.shape else ndarray(data, (len(data),), d).reshape(shape)
        )

    def _characters(self, d: dtype) -> ndarray:
        if d.kind == self.dtype.kind or d.itemsize != 4 or self.itemsize != 4:
            raise TypeError(f"the stand-in for NumPy does not read {self.dtype} as {d}")
        if d.kind == "U":
            return ndarray([chr(c) if c else "" for c in self.data], self.shape, d)
        return ndarray([ord(c) if c else 0 for c in self.data], self.shape, d)

    def _count(self, d: dtype) -> int:
        return self.nbytes // d.itemsize

    def tobytes(self) -> bytes:
        if self.dtype is OBJECT:
            return repr([id(v) for v in self.data]).encode()
        if self.dtype.kind == "U":
            return "\0".join(self.data).encode()
        return struct.pack(f"<{len(self.data)}{_code(self.dtype)}", *self.data)

    def tolist(self) -> Any:
        if not self.shape:
            return self.data[0]
        if len(self.shape) == 1:
            return list(self.data)
        return [part.tolist() for part in self]

    def item(self, *at: int) -> Any:
        return self.data[0] if not at else self[at].data[0]

    def transpose(self, *axes: Any) -> ndarray:
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = tuple(order) if order else tuple(reversed(range(self.ndim)))
        steps, shape = strides_of(self.shape), tuple(self.shape[a] for a in order)
        places = offsets(shape, [steps[a] for a in order])
        return ndarray([self.data[p] for p in places], shape, self.dtype)

    def swapaxes(self, a: int, b: int) -> ndarray:
        order = list(range(self.ndim))
        order[a], order[b] = order[b], order[a]
        return self.transpose(order)

    def fill(self, value: Any) -> None:
        self[...] = value

    def squeeze(self) -> ndarray:
        return self.reshape([n for n in self.shape if n != 1])

    def __getattr__(self, name: str) -> Any:
        reduction = REDUCTIONS.get(name)
        if reduction is None:
            raise AttributeError(f"the page has a stand-in for NumPy, whose arrays have no {name}")
        return lambda *args, **options: reduction(self, *args, **options)

    def __getitem__(self, index: Any) -> Any:
        if index is Ellipsis:
            return self.copy()
        places, shape = selected(self.shape, index)
        if shape is None:
            return boxed(self.data[places[0]], self.dtype)
        return ndarray([self.data[p] for p in places], shape, self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        places, shape = selected(self.shape, index)
        if shape is None and self.dtype is OBJECT:
            self.data[places[0]] = value.data[0] if isinstance(value, ndarray) else value
            return
        source = asarray(value, self.dtype)
        source = broadcast_to(source, shape or ())
        for p, v in zip(places, source.data, strict=True):
            self.data[p] = v

    def _number(self) -> Any:
        if len(self.data) != 1:
            raise TypeError("only size-1 arrays can be converted to Python scalars")
        return self.data[0]

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __bool__(self) -> bool:
        if len(self.data) > 1:
            raise ValueError(
                "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
            )
        return bool(self.data) and bool(self.data[0])

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iub":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return int(self.data[0])

    def __hash__(self) -> int:
        if not isinstance(self, generic):
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(self.data[0])

    def __repr__(self) -> str:
        return f"array({self.tolist()}, dtype={self.dtype})"

    def __str__(self) -> str:
        return str(self.tolist())

    def __format__(self, spec: str) -> str:
        return format(self.data[0] if not self.shape else str(self), spec)


def _operator(name: str) -> Any:
    return lambda self, other: OPERATORS[name](self, other)


def _reflected(name: str) -> Any:
    return lambda self, other: OPERATORS[name](other, self)


def _in_place(name: str) -> Any:
    def change(self: ndarray, other: Any) -> ndarray:
        if isinstance(self, generic):
            return OPERATORS[name](self, other)  # type: ignore[no-any-return]
        self[...] = OPERATORS[name](self, other)
        return self

    return change


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
for _name in _ARITHMETIC:
    setattr(ndarray, f"__{_name}__", _operator(_name))
    setattr(ndarray, f"__r{_name}__", _reflected(_name))
    setattr(ndarray, f"__i{_name}__", _in_place(_name))
for _name in ("lt", "le", "gt", "ge", "eq", "ne"):
    setattr(ndarray, f"__{_name}__", _operator(_name))
for _name in ("neg", "abs", "invert", "pos"):
    setattr(ndarray, f"__{_name}__", (lambda name: lambda self: OPERATORS[name](self))(_name))


class Flat:
    """The elements in row-major order, as scalars."""

    def __init__(self, of: ndarray) -> None:
        self.of = of

    def __iter__(self) -> Iterator[Any]:
        return (boxed(v, self.of.dtype) for v in self.of.data)

    def __getitem__(self, k: int) -> Any:
        return boxed(self.of.data[k], self.of.dtype)

    def __len__(self) -> int:
        return len(self.of.data)


class Flags:
    """What is asked of the memory of an array."""

    writeable = c_contiguous = contiguous = owndata = True

    def __getitem__(self, name: str) -> bool:
        return True


SCALARS: dict[str, type] = {}
"""The class of scalars of each dtype, which `scalars` puts here"""


def boxed(value: Any, of: dtype) -> Any:
    """An element as a scalar; of dtype object the element itself."""
    return value if of is OBJECT else SCALARS[of.kind if of.kind == "U" else of.name](value)


def _code(d: dtype) -> str:
    code = _CODES.get(f"{d.kind}{d.itemsize}")
    if code is None:
        raise TypeError(f"the stand-in for NumPy knows no bits of {d}")
    return code


def strides_of(shape: Shape) -> list[int]:
    """How many elements one step along each axis is."""
    steps = [1] * len(shape)
    for k in range(len(shape) - 2, -1, -1):
        steps[k] = steps[k + 1] * shape[k + 1]
    return steps


def offsets(shape: Sequence[int], steps: Sequence[int], start: int = 0) -> list[int]:
    """The places of the elements of a shape whose axes have these steps."""
    places = [start]
    for n, step in zip(shape, steps):
        if step == 0:
            places = [p for p in places for _ in range(n)]
        else:
            along = range(0, n * step, step) if n else ()
            places = [p + s for p in places for s in along]
    return places


def selected(shape: Shape, index: Any) -> tuple[list[int], Shape | None]:
    """The places of what an index selects, and the shape of that; None for one element."""
    items = list(index) if isinstance(index, tuple) else [index]
    if any(i is Ellipsis for i in items):
        at = next(k for k, i in enumerate(items) if i is Ellipsis)
        taken = sum(_axes_of(i) for i in items if i is not Ellipsis)
        items[at : at + 1] = [slice(None)] * (len(shape) - taken)
    items = [i.tolist() if isinstance(i, ndarray) and i.shape == () and i.dtype is not BOOL else i for i in items]
    items = [x for i in items for x in _expanded(i)]
    if sum(_axes_of(i) for i in items) > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional")
    items += [slice(None)] * (len(shape) - sum(_axes_of(i) for i in items))
    if any(isinstance(i, (ndarray, list)) for i in items):
        return _gathered(shape, items)
    steps, start, out = strides_of(shape), 0, []
    axis = 0
    for i in items:
        if i is None:
            out.append((1, 0))
            continue
        n, step = shape[axis], steps[axis]
        axis += 1
        if isinstance(i, slice):
            first, last, by = i.indices(n)
            out.append((len(range(first, last, by)), by * step))
            start += first * step if range(first, last, by) else 0
        else:
            start += _inside(i, n, axis - 1) * step
    picked = [n for n, _ in out]
    if not any(isinstance(i, slice) or i is None for i in items):
        return [start], (None if not isinstance(index, tuple) or len(items) == len(shape) else ())
    return offsets(picked, [s for _, s in out], start), tuple(picked)


def _axes_of(i: Any) -> int:
    return 0 if i is None else i.ndim if isinstance(i, ndarray) and i.dtype is BOOL else 1


def _expanded(i: Any) -> list[Any]:
    """A mask as the positions that it has along each of its axes."""
    if isinstance(i, list):
        i = asarray(i)
    if not isinstance(i, ndarray) or i.dtype is not BOOL:
        return [i]
    points = [at for at, keep in zip(product(*map(range, i.shape)), i.data) if keep]
    return [ndarray([at[k] for at in points], (len(points),), dtype(int)) for k in range(i.ndim)]


def _inside(i: Any, n: int, axis: int) -> int:
    k = i.__index__()
    if not -n <= k < n:
        raise IndexError(f"index {k} is out of bounds for axis {axis} with size {n}")
    return k + n if k < 0 else k


def _gathered(shape: Shape, items: list[Any]) -> tuple[list[int], Shape]:
    """An index with arrays of positions: their axes stand where the first of them stands, or first where they are apart."""
    steps = strides_of(shape)
    positions = {k: asarray(i) for k, i in enumerate(items) if not isinstance(i, slice)}
    arrays = broadcast_arrays(*positions.values())
    together = [*positions] == [*range(min(positions), max(positions) + 1)]
    places = [0] * arrays[0].size
    for (k, _), a in zip(positions.items(), arrays):
        places = [p + _inside(int(i), shape[k], k) * steps[k] for p, i in zip(places, a.data)]
    before = [k for k, i in enumerate(items) if isinstance(i, slice) and together and k < min(positions)]
    after = [k for k, i in enumerate(items) if isinstance(i, slice) and k not in before]
    head, head_places = _sliced(shape, steps, items, before)
    tail, tail_places = _sliced(shape, steps, items, after)
    return [h + p + t for h in head_places for p in places for t in tail_places], (*head, *arrays[0].shape, *tail)


def _sliced(shape: Shape, steps: list[int], items: list[Any], axes: list[int]) -> tuple[list[int], list[int]]:
    sizes, places = [], [0]
    for k in axes:
        along = [p * steps[k] for p in range(*items[k].indices(shape[k]))]
        sizes.append(len(along))
        places = [p + a for p in places for a in along]
    return sizes, places


def asarray(
    value: Any, dtype_: Any = None, *, dtype: Any = None, copy: Any = None, order: str = "C", ndmin: int = 0
) -> ndarray:
    """An array of numbers, of nested lists, or of an array: a copy of that."""
    from .dtypes import dtype as known

    of = dtype_ if dtype_ is not None else dtype
    target = None if of is None else _text_dtype(value) if of is str else known(of)
    if isinstance(value, ndarray):
        return value.astype(target or value.dtype)
    shape, flat = _nested(value, target is OBJECT)
    if target is None:
        target = _text_dtype(value) if any(isinstance(v, str) for v in flat) else result_type(*flat) if flat else F64
    numbers = [v.data[0] if isinstance(v, ndarray) and v.shape == () else v for v in flat]
    return ndarray(target.elements(numbers), shape, target)


def _text_dtype(value: Any) -> dtype:
    flat = value.data if isinstance(value, ndarray) else _nested(value, False)[1]
    return dtype(f"<U{max((len(str(v)) for v in flat), default=1) or 1}")


def _nested(value: Any, objects: bool) -> tuple[Shape, list[Any]]:
    if isinstance(value, ndarray) and value.shape:
        return value.shape, list(value.data)
    if not isinstance(value, (list, tuple, range)):
        return (), [value]
    parts = [_nested(v, objects) for v in value]
    shapes = {shape for shape, _ in parts}
    if len(shapes) > 1:
        raise ValueError("setting an array element with a sequence: the array has an inhomogeneous shape")
    return (len(parts), *(shapes.pop() if shapes else ())), [v for _, flat in parts for v in flat]


def empty(shape: Any, of: Any = float, *, dtype: Any = None, order: str = "C") -> ndarray:
    """An array of zeros, or of None for objects."""
    from .dtypes import dtype as known

    d = known(of if dtype is None else dtype)
    return full(shape, None if d is OBJECT else 0, d)


def full(shape: Any, value: Any, of: Any = None, *, dtype: Any = None) -> ndarray:
    from .dtypes import dtype as known

    sizes = tuple(map(int, shape)) if isinstance(shape, (tuple, list)) else (int(shape),)
    if math.prod(sizes) > 1 << 22:
        raise MemoryError(f"an array of shape {sizes} is more than the page computes")
    if min(sizes, default=0) < 0:
        raise ValueError("negative dimensions are not allowed")
    of = of if of is not None else dtype
    first = ndarray([value], (), OBJECT) if of is not None and known(of) is OBJECT else asarray(value, of)
    return ndarray(first.data * math.prod(sizes), sizes, first.dtype)


def broadcast_shapes(*shapes: Shape) -> Shape:
    rank = max(map(len, shapes), default=0)
    out = []
    for sizes in zip(*((1,) * (rank - len(s)) + tuple(s) for s in shapes)):
        wide = {n for n in sizes if n != 1}
        if len(wide) > 1:
            raise ValueError(f"operands could not be broadcast together with shapes {' '.join(map(str, shapes))}")
        out.append(wide.pop() if wide else 1)
    return tuple(out)


def broadcast_to(a: Any, shape: Any) -> ndarray:
    a, shape = asarray(a), tuple(shape)
    if a.shape == shape:
        return a
    lead = len(shape) - a.ndim
    if lead < 0 or broadcast_shapes(a.shape, shape) != shape:
        raise ValueError(f"could not broadcast input array from shape {a.shape} into shape {shape}")
    steps = [0] * lead + [0 if n == 1 else s for n, s in zip(a.shape, strides_of(a.shape))]
    return ndarray([a.data[p] for p in offsets(shape, steps)], shape, a.dtype)


def broadcast_arrays(*arrays: Any) -> list[ndarray]:
    several = [asarray(a) for a in arrays]
    shape = broadcast_shapes(*(a.shape for a in several))
    return [broadcast_to(a, shape) for a in several]


def ndindex(*shape: Any) -> Iterator[Shape]:
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    return product(*map(range, sizes))
