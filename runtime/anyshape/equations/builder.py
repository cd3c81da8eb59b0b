"""The builder that a generated kernel calls: one `define` per equation of the spec."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from anyshape.dims import Size
from anyshape.dtypes import DType
from anyshape.equations.expr import Expr, ExprLike, Read, Tensor, Var, adapt, as_expr, cast
from anyshape.errors import SpecError


@dataclass(frozen=True, eq=False, slots=True)
class Equation:
    """target[index] = value, for every value of the free variables of index; `source` is where the spec says it."""

    target: Tensor
    index: tuple[Expr, ...]
    value: Expr
    source: str = ""

    @property
    def variables(self) -> tuple[Var, ...]:
        found: dict[Var, None] = {}
        for i in self.index:
            for v in sorted(i.free, key=lambda v: v.serial):
                found[v] = None
        return tuple(found)

    def __str__(self) -> str:
        return f"{self.target.name}[{', '.join(map(str, self.index))}] = {self.value}"


class Equations:
    """The equations of one call of an op, in definition order.

    `inputs` and `outputs` are the tensors by name, in the order of the op; equations define outputs and scratches.
    `dtypes` is what each dtype variable of the op (T, F …) is in this call.
    """

    def __init__(
        self,
        op: str,
        inputs: Mapping[str, Tensor | Sequence[Tensor]],
        outputs: Mapping[str, Tensor | Sequence[Tensor]],
        dtypes: Mapping[str, DType] | None = None,
    ) -> None:
        self.op = op
        self.inputs = dict(inputs)
        self.dtypes = dict(dtypes or {})
        self.outputs = dict(outputs)
        self.scratches: list[Tensor] = []
        self.equations: list[Equation] = []

    def tensor(self, name: str) -> Tensor:
        """The input or output of that name."""
        found = self.inputs.get(name, self.outputs.get(name))
        if not isinstance(found, Tensor):
            raise SpecError(f"{self.op} has no single tensor {name}")
        return found

    def tensors(self, name: str) -> Sequence[Tensor]:
        """The elements of the variadic input or output of that name."""
        found = self.inputs.get(name, self.outputs.get(name))
        if found is None or isinstance(found, Tensor):
            raise SpecError(f"{self.op} has no variadic tensors {name}")
        return found

    def index(self, name: str, extent: Size) -> Var:
        return Var(name, extent)

    def indices(self, name: str, extents: Iterable[Size]) -> tuple[Var, ...]:
        return tuple(Var(f"{name}{k}", n) for k, n in enumerate(extents))

    def scratch(self, name: str, dtype: DType, shape: Iterable[Size]) -> Tensor:
        tensor = Tensor(name, dtype, tuple(shape))
        self.scratches.append(tensor)
        return tensor

    def define(self, target: Expr, value: ExprLike, source: str = "") -> None:
        """target is a read, `t[i, *j]`. A weak value takes t's dtype; a strong one must have it, but for bool and index values."""
        if not isinstance(target, Read):
            raise SpecError(f"{self.op}: an equation must define an element of a tensor, not {target}")
        tensor = target.tensor
        e = adapt(as_expr(value), tensor.dtype)
        if e.dtype is not tensor.dtype:
            e = cast(e, tensor.dtype)
        self.equations.append(Equation(tensor, target.index, e, source))

    def __str__(self) -> str:
        return "\n".join(map(str, self.equations))
