"""Values and nodes of the SSA graph. Both are made once and never changed; a pass that changes something makes new ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from enum import Enum
from functools import partial
from itertools import count
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from anyshape.graph.function import Function
    from anyshape_ops.values import Spelled
else:
    Spelled = object

from anyshape.dims import ANONYMOUS, Cond, Dim, Sameness, Size, element_name, exact_text, fresh, legible_name
from anyshape.dtypes import I32, I64, DType, from_numpy
from anyshape.equations.exact_floats import ExactFloat
from anyshape.errors import ArgumentError
from anyshape.graph.opdef import OpDef
from anyshape.graph.spelled import is_property, method, names, operators
from anyshape.public import public, short
from anyshape.rules import Check
from anyshape.strings import as_chars
from anyshape.types import ListType, TensorType

Element = int | Dim | bool | Cond
Contents = tuple[Element, ...]
Floats = tuple[float | ExactFloat | None, ...]
"""The elements of a small float tensor; None for one of which nothing is known"""

SMALL = 64
"""Tensors of SIZES and bool of at most this many elements carry their contents through type inference."""
SIZES = (I64, I32)
"""Dtypes of tensors that may hold sizes. Dims do not wrap as narrower integers do."""


class Unknown(Enum):
    """The state of contents that nobody has asked for yet."""

    UNKNOWN = "unknown"


UNKNOWN = Unknown.UNKNOWN

_SERIALS = count()


def mark() -> int:
    """Nodes made from now on have larger serial numbers."""
    return next(_SERIALS)


class Value(Spelled):
    """A parameter, a constant, or one output of a node. Compared by identity; other operators of Python, indices and methods are the ops
    that specs say (`x + y`, `x[1:]`, `x.sum(axis=0)`).

    `contents` are the elements of a small integer or bool tensor in row-major order, as far as they are known: integers,
    dims, conditions; an element nothing is known of is a new symbol.
    """

    __slots__ = (
        "__weakref__",
        "_contents",
        "constant",
        "floats",
        "folded",
        "index",
        "name",
        "node",
        "required",
        "type",
    )

    def __init__(
        self,
        type: TensorType,
        name: str = "",
        node: Node | None = None,
        *,
        index: int = 0,
        constant: NDArray[Any] | None = None,
        contents: Contents | None = None,
    ) -> None:
        if not isinstance(type, TensorType):
            raise ArgumentError(f"a value has a TensorType, got {type!r}")
        self.type, self.name, self.node, self.index, self.constant = type, name, node, index, constant
        self._contents: Contents | Unknown | None = contents if contents is not None else UNKNOWN
        self.floats: Floats | None = None
        """The elements of a small float tensor that sizes decide, as far as they are known to be exact; None if none is."""
        self.required: tuple[Value, ...] = ()
        """What is required of sizes that are computed of this value; see `require`."""
        self.folded: Node | None = None
        """The call that a constant is the result of, where a rewrite's pattern may have it within another call, or it is of more bytes than
        what the call reads, which a kernel may read instead; or the one that moves the result of such a call."""

    @property
    def is_constant(self) -> bool:
        return self.constant is not None

    @property
    def is_param(self) -> bool:
        return self.node is None and self.constant is None

    @property
    def contents(self) -> Contents | None:
        """What is known of the elements without asking for more; None if nothing is."""
        if self._contents is UNKNOWN and self.constant is not None:
            self._contents = _constant_contents(self.constant, self.type)
        return None if self._contents is UNKNOWN else self._contents

    def elements(self) -> Contents | None:
        """The contents, with symbols made for elements nothing is known of; None if there are too many to name."""
        from anyshape.graph.sizes import remember

        known = self.contents
        if known is not None:
            return known
        t = self.type
        if not t.is_static or t.dtype not in SIZES:
            return None
        n = t.count()
        assert isinstance(n, int)
        if n > SMALL:
            return None
        if n == 0:  # nothing gets a name, and what makes the value may still be refused: it is no constant
            return ()
        self._contents = tuple(element_symbol(self, k) for k in range(n))
        remember(self)
        return self._contents

    def __repr__(self) -> str:
        return f"<{self.name or '%'}: {self.type}>"

    # --- what Python and NumPy ask of an array; see `spelled`

    __hash__ = object.__hash__
    computes_with_dims = True
    """Dims leave `dim + value` to the value."""

    def __array_ufunc__(self, ufunc: np.ufunc, how: str, *operands: Any, **options: Any) -> Any:
        from anyshape.graph.numpy_functions import of_ufunc

        return of_ufunc(ufunc, how, operands, options)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        from anyshape.graph.numpy_functions import of_function

        return of_function(function, arguments, options)

    def __divmod__(self, other: Any) -> tuple[Value, Value]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Value, Value]:
        return other // self, other % self

    @property
    def shape(self) -> tuple[Size, ...]:
        """The dims, numbers or symbols. Raises ArgumentError where not even their number is known."""
        if self.type.shape is None:
            raise ArgumentError(f"{self!r} has dims of which not even the number is known; match_shape says what it is")
        return self.type.shape

    @property
    def size(self) -> Size:
        """The number of elements, a number or a dim, which takes the dtype that it meets: `x.sum() / x.size`."""
        return prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    def __eq__(self, other: object) -> bool:
        if isinstance(other, np.ndarray | np.generic):  # as NumPy has it for `array == value`
            return np.equal(self, other)  # type: ignore[return-value]  # a Value of bools stands for a bool
        if isinstance(other, int | float | list | Dim):
            raise ArgumentError("values are == if they are the same value; elements are compared by x.equal(y)")
        return Sameness(self, other, self is other)  # type: ignore[return-value]  # a Sameness stands for a bool

    def __ne__(self, other: object) -> bool:
        if isinstance(other, np.ndarray | np.generic):
            return np.not_equal(self, other)  # type: ignore[return-value]  # a Value of bools stands for a bool
        return Sameness(self, other, not self == other)  # type: ignore[return-value]  # a Sameness stands for a bool

    def __getitem__(self, key: Any) -> Value:
        from anyshape.graph.item import item

        return item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise ArgumentError("a value never changes; ops.scatter_nd and ops.where make another one")

    def __len__(self) -> int:
        if not self.shape or not isinstance(self.shape[0], int):
            raise ArgumentError(f"{self!r} has no length that is known before the program runs; its shape has the dims")
        return self.shape[0]

    def __iter__(self) -> Iterator[Value]:
        return (self[k] for k in range(len(self)))

    def __getattr__(self, name: str) -> Any:
        called = method(name) if not name.startswith("__") else None
        if called is None:
            near = get_close_matches(name, names(), 3) if not name.startswith("_") else []
            raise AttributeError(f"a value has no {name}" + (f"; did you mean {', '.join(near)}?" if near else ""))
        return called(self) if is_property(name) else partial(called, self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *names()})


for _name, _function in operators():
    setattr(Value, _name, _function)


def element_symbol(value: Value, k: int) -> Any:
    """A symbol for element k of a value whose elements are known only at run time; any integer."""
    return fresh(element_name(value.name, k), low=None)


def as_known(size: Dim | Cond) -> str:
    """A size as people know it: such symbols as `total[0]`, sizes that data decides as `k`, without what makes each unlike others."""
    return ANONYMOUS.sub(lambda m: legible_name(m.group(), m.group().rpartition(".")[0] or "?"), exact_text(size))


def _constant_contents(array: NDArray[Any], type: TensorType) -> Contents | None:
    if array.size > SMALL or not (type.dtype in SIZES or type.dtype.is_bool):
        return None
    return tuple(array.reshape(-1).tolist())


@public
def constant(array: Any, name: str = "", dtype: Any = None, computed: bool = False) -> Value:
    """A constant of a graph; of strings, their characters, which a `computed` array holds already. The array is copied only if it is not
    dense row-major or can be written to."""
    try:
        a = np.asarray(array, dtype=dtype)
    except (TypeError, ValueError, OverflowError) as e:
        raise ArgumentError(f"a constant must be an array, got {short(array)} of dtype {dtype!r}: {e}") from None
    if a.dtype.kind == "U" and not computed:
        a = as_chars(a)
    if not a.flags.c_contiguous:
        a = np.ascontiguousarray(a).reshape(a.shape)
    if a.flags.writeable:
        a = a.view()
        a.flags.writeable = False
    return Value(TensorType(from_numpy(a.dtype), a.shape), name, constant=a)


class Node:
    """A call of an op variant. `inputs` are the operands in order: data (a variadic one flattened), then operand parameters;
    None stands for an absent optional. `checks` are what the type relation could not decide. `regions` are the functions that an op of
    control flow runs; `serial` says which of two nodes was made first; `count` is how many outputs the call asked for, if it said."""

    __slots__ = (
        "attrs", "bound", "checks", "count", "dtypes", "inputs", "op", "outputs", "regions", "serial", "source"
    )  # fmt: skip

    def __init__(
        self,
        op: OpDef,
        inputs: tuple[Value | None, ...],
        attrs: Mapping[str, Any],
        source: str = "",
        regions: tuple[Function, ...] = (),
    ) -> None:
        self.op, self.inputs, self.attrs, self.source, self.regions = op, inputs, attrs, source, regions
        self.serial = next(_SERIALS)
        self.outputs: tuple[Value, ...] = ()
        self.checks: tuple[Check, ...] = ()
        self.bound: Any = None
        self.count: int | None = None
        self.dtypes: Mapping[str, Any] = {}

    @property
    def data_inputs(self) -> tuple[Value | None, ...]:
        """The operands that are data, a variadic one flattened."""
        return self.inputs[: len(self.inputs) - len(self.op.operands)]

    @property
    def param_operands(self) -> tuple[Value | None, ...]:
        """The operands that are parameters of the op, in their order."""
        return self.inputs[len(self.inputs) - len(self.op.operands) :]

    def variadic_count(self) -> int:
        """How many operands the variadic input (if any) has."""
        return len(self.data_inputs) - (len(self.op.inputs) - 1)

    def grouped_inputs(self) -> dict[str, Value | tuple[Value, ...] | None]:
        """Data inputs by name, the variadic one as a tuple."""
        grouped: dict[str, Value | tuple[Value, ...] | None] = {}
        at = 0
        for i in self.op.inputs:
            if i.variadic:
                n = self.variadic_count()
                grouped[i.name] = tuple(v for v in self.inputs[at : at + n] if v is not None)
                at += n
            else:
                grouped[i.name] = self.inputs[at]
                at += 1
        return grouped

    @property
    def sequence(self) -> Value | None:
        """The list that the call gives in the place of tensors, if it gives one."""
        at = self.op.sequence
        operand = self.inputs[at] if at is not None and self.variadic_count() == 1 else None
        return operand if operand is not None and isinstance(operand.type, ListType) else None

    def operand_inputs(self) -> dict[str, Value | None]:
        """Operand parameters by name."""
        return dict(zip((p.name for p in self.op.operands), self.param_operands, strict=True))

    @property
    def is_open(self) -> bool:
        """Whether the rule needs a value that only the run tells, such as axes, for this call or for anything inside."""
        return (
            (self.bound is None and bool(self.outputs))
            or any(v.type.shape is None for v in self.outputs)
            or any(p.type.shape is None for r in self.regions for p in r.params)
            or any(n.is_open for r in self.regions for n in r.nodes)
        )

    def __repr__(self) -> str:
        return f"<{self.op.full_name} at {self.source or '?'}>"
