"""The builder that a generated kernel calls: one `define` per equation of the spec."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from anyshape.dims import Dim, Size, eq
from anyshape.dtypes import BOOL, I64, DType, accum
from anyshape.equations.expr import Apply, Const, Expr, ExprLike, Read, Tensor, Var, adapt, as_expr, cast
from anyshape.equations.functions import fold, where
from anyshape.equations.procedure import Procedure
from anyshape.equations.program import StepProgram
from anyshape.equations.traversal import walk
from anyshape.errors import SpecError
from anyshape.rules import Elements

UPDATES = ("set", "add", "sub", "mul", "max", "min")


@dataclass(frozen=True, eq=False, slots=True)
class Compaction:
    """The value at each point of `over`, in row-major order, where `where` holds: one after the other along `along`."""

    along: Var
    over: tuple[Var, ...]
    where: Expr | None


@dataclass(frozen=True, eq=False, slots=True)
class Sorting:
    """The positions of `over` in the order of the value, as many of the first as `along` has: equal ones in their own order, NaN as the
    greatest."""

    along: Var
    over: Var
    descending: bool


@dataclass(frozen=True, eq=False, slots=True)
class Update:
    """target[index] op= value, at any index and more than once, in row-major order of the variables; `op` is one of UPDATES.

    Where `where` does not hold, nothing is done, and neither index nor value is evaluated. `over` are variables that it has in any case.
    """

    op: str
    where: Expr | None = None
    over: tuple[Var, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class RecurrenceStep:
    """One equation of a recurrence: those of one `cycle` are computed together, position by position of `along`, the last first if
    `backward`; at each position in the order stated.

    They may read each other at positions that come before, and at the same position what is stated before.
    """

    along: Var
    backward: bool
    cycle: int


@dataclass(frozen=True, slots=True)
class Demand:
    """The (only) element must be true; else the call ends with the message: words, and sizes between them."""

    message: tuple[str | Size, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """The target is one of the tensors that a program makes; its value and index say nothing."""

    program: StepProgram


Form = Compaction | Sorting | Update | RecurrenceStep | Demand | Run


@dataclass(frozen=True, eq=False, slots=True)
class Equation:
    """target[index] = value, for every value of the free variables of index; `source` is where the spec says it.

    With a `form` the elements are not independent, and what the value means is said there. `unbacked` is the size that the
    (only) element of target is: nothing that mentions the size can be computed before. `maker` is whoever stated it.
    """

    target: Tensor
    index: tuple[Expr, ...]
    value: Expr
    source: str = ""
    form: Form | None = None
    _: KW_ONLY
    unbacked: Dim | None = None
    maker: object = None

    def __post_init__(self) -> None:
        """Compilers trust that what is put into a tensor has its dtype: a narrow float is rounded by a cast, and nowhere else."""
        if self.form is None or isinstance(self.form, (RecurrenceStep, Update)):
            assert self.value.dtype in (None, self.target.dtype), (
                f"{self.target.name} of {self.target.dtype} = {self.value}"
            )

    @property
    def variables(self) -> tuple[Var, ...]:
        along = self.form.along if isinstance(self.form, (Compaction, Sorting)) else None
        if isinstance(self.form, Update):  # also those that the index does not mention: the last one wins, or all count
            mentioned = frozenset(self.form.over).union(*(e.free for e in self.expressions))
            return tuple(sorted(mentioned, key=lambda v: v.serial))
        in_order: dict[Var, None] = {}
        for i in self.index:
            for v in sorted(i.free, key=lambda v: v.serial):
                if v is not along:
                    in_order[v] = None
        return tuple(in_order)

    @property
    def over(self) -> tuple[Var, ...]:
        """The variables of a form that are not on the left side."""
        if isinstance(self.form, Sorting):
            return (self.form.over,)
        return self.form.over if isinstance(self.form, Compaction) else ()

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is evaluated: the value, the index, the filter, the steps of a program."""
        if isinstance(self.form, Run):
            return self.form.program.expressions
        return (self.value, *self.index) if self.where is None else (self.value, *self.index, self.where)

    @property
    def where(self) -> Expr | None:
        """The condition of a form under which index and value are evaluated."""
        return self.form.where if isinstance(self.form, (Compaction, Update)) else None

    def __str__(self) -> str:
        if isinstance(self.form, Run):
            return self.form.program.line(self.target)
        value, sign = str(self.value), "="
        kept = "" if self.where is None else f" if {self.where}"
        if isinstance(self.form, Update):
            sign = "=" if self.form.op == "set" else f"{self.form.op}="
            value += kept
        elif self.over:
            names = ", ".join(v.name for v in self.over)
            value = f"[{value} for {names}{kept}]"
            if isinstance(self.form, Sorting):
                value = f"argsort({value}{', descending' if self.form.descending else ''})"
        return f"{self.target.name}[{', '.join(map(str, self.index))}] {sign} {value}"


class Equations:
    """The equations of one call of an op, in definition order.

    `inputs` and `outputs` are the tensors by name, in the order of the op; equations define outputs and scratches.
    `dtypes` is what each dtype variable of the op (T, F …) is in this call.
    """

    def __init__(
        self,
        op: str,
        inputs: Mapping[str, Tensor | Sequence[Tensor] | Elements[Tensor]],
        outputs: Mapping[str, Tensor | Sequence[Tensor]],
        dtypes: Mapping[str, DType] | None = None,
    ) -> None:
        self.op = op
        self.inputs = dict(inputs)
        self.dtypes = dict(dtypes or {})
        self.outputs = dict(outputs)
        self.scratches: list[Tensor] = []
        self.equations: list[Equation] = []
        self.carried: dict[Tensor, Tensor] = {}
        """The tensor of an output's value before the current element, by output that is accumulated over the elements of a list."""

    def tensor(self, name: str) -> Tensor:
        """The input or output of that name."""
        declared = self.inputs.get(name, self.outputs.get(name))
        if not isinstance(declared, Tensor):
            raise SpecError(f"{self.op} has no single tensor {name}")
        return declared

    def tensors(self, name: str) -> Sequence[Tensor] | Elements[Tensor]:
        """The elements of the variadic input or output of that name."""
        declared = self.inputs.get(name, self.outputs.get(name))
        if declared is None or isinstance(declared, Tensor):
            raise SpecError(f"{self.op} has no variadic tensors {name}")
        return declared

    def index(self, name: str, extent: Size) -> Var:
        return Var(name, extent)

    def indices(self, name: str, extents: Iterable[Size]) -> tuple[Var, ...]:
        return tuple(Var(f"{name}{k}", n) for k, n in enumerate(extents))

    def scratch(self, name: str, dtype: DType, shape: Iterable[Size]) -> Tensor:
        """A tensor of the op's own, in the dtype that values of `dtype` are computed in."""
        tensor = Tensor(name, accum(dtype), tuple(shape))
        self.scratches.append(tensor)
        return tensor

    def define(self, target: Expr, value: ExprLike, source: str = "") -> None:
        """target is a read, `t[i, *j]`. A weak value takes t's dtype; a strong one must have it, but for bool and index values."""
        tensor, index = self._left(target)
        adapted = _adapted(value, tensor.dtype)
        # What no two evaluations agree about is evaluated once, by a kernel of its own that runs in one part.
        form = Update("set") if isinstance(adapted, Apply) and adapted.op == "entropy" else None
        self.equations.append(Equation(tensor, index, adapted, source, form))

    def gather(
        self,
        target: Expr,
        kind: str,
        xs: Sequence[Tensor] | Elements[Tensor],
        body: Callable[[Any], ExprLike],
        source: str = "",
    ) -> None:
        """`t[*i] = sum(body(v) for v in c)` over the tensors of a sequence; of a list, what there is so far and the element at hand. Sums
        and products of narrow floats so far are a tensor of accum(T), and t its elements, rounded."""
        if not isinstance(xs, Elements):
            self.define(target, fold(kind, (body(v) for v in range(len(xs)))), source)
            return
        tensor, index = self._left(target)
        held = tensor
        if kind in ("sum", "prod") and accum(tensor.dtype) is not tensor.dtype:
            held = Tensor(f"{tensor.name}_wide", accum(tensor.dtype), tensor.shape)
        before = self.carried[held] = Tensor(f"{tensor.name}_before", held.dtype, held.shape)
        mine = cast(body(xs.index), accum(tensor.dtype))
        self.define(held[index], where(as_expr(eq(xs.index, 0)), mine, fold(kind, (before[index], mine))), source)
        if held is not tensor:
            self.define(target, held[index], source)

    def unbacked(self, size: Size, value: ExprLike, source: str = "") -> None:
        """Defines a data-dependent size by the value: `k = count(...)`."""
        if not isinstance(size, Dim) or not size.is_symbol:
            raise SpecError(f"{self.op}: a data-dependent size must be a symbol, not {size}")
        tensor = self.scratch(size.name, I64, ())
        self.equations.append(Equation(tensor, (), _adapted(value, I64), source, unbacked=size))

    def compact(
        self,
        target: Expr,
        extents: Iterable[Size],
        body: Callable[..., ExprLike],
        where: Callable[..., ExprLike] | None = None,
        source: str = "",
    ) -> None:
        """`t[i, :] = [body for vars in extents if where]`."""
        tensor, index = self._left(target)
        along = self._along(tensor, index)
        over = tuple(Var(f"r{i}", n) for i, n in enumerate(extents))
        keep = None if where is None else as_expr(where(*over))
        value = _adapted(body(*over), tensor.dtype)
        self.equations.append(Equation(tensor, index, value, source, Compaction(along, over, keep)))

    def argsort(
        self,
        target: Expr,
        extents: Iterable[Size],
        body: Callable[..., ExprLike],
        descending: bool = False,
        source: str = "",
    ) -> None:
        """`t[i, :] = argsort([body for var in extents], descending=)`."""
        tensor, index = self._left(target)
        along = self._along(tensor, index)
        (extent,) = extents
        over = Var("r0", extent)
        key = as_expr(body(over))
        value = adapt(key, I64)
        self.equations.append(Equation(tensor, index, value, source, Sorting(along, over, bool(descending))))

    def step(
        self, target: Expr, value: ExprLike, along: Var, backward: bool = False, cycle: int = 0, source: str = ""
    ) -> None:
        """`t[along, *j] = value` of a recurrence."""
        tensor, index = self._left(target)
        if sum(along in i.free for i in index) != 1:
            raise SpecError(
                f"{self.op}: a recurrence of {tensor.name} goes along {along.name}, which one index must have"
            )
        self.equations.append(
            Equation(tensor, index, _adapted(value, tensor.dtype), source, RecurrenceStep(along, bool(backward), cycle))
        )

    def demand(self, condition: ExprLike, message: tuple[str | Size, ...], source: str = "") -> None:
        """An assert that reads values: it is checked when the kernel runs. Where what it reads is absent, there is nothing to check."""
        if not any(isinstance(e, Read) for e in walk(as_expr(condition))):
            return
        tensor = self.scratch(f"demand{len(self.equations)}", BOOL, ())
        self.equations.append(Equation(tensor, (), _adapted(condition, BOOL), source, Demand(message)))

    def procedure(self, unbacked: Mapping[Size, Size] | None = None, counted: bool = False) -> Procedure:
        """A procedure of steps; its `end` states the equations. `unbacked`: {data-dependent size: its upper bound}; `counted`: the
        sizes are found by a run of their own, ahead of the one that has memory for the results."""
        return Procedure(self, unbacked, counted)

    def update(
        self,
        target: Expr,
        op: str,
        value: ExprLike,
        source: str = "",
        *,
        over: Iterable[Expr] = (),
        where: ExprLike | None = None,
    ) -> None:
        """`t[e] op= value`, one after the other; only where `where` holds, and for all values of the variables of `over`. What nothing
        defines before its first update is zero."""
        if op not in UPDATES:
            raise SpecError(f"{self.op}: {op} is not an update; the updates are {', '.join(UPDATES)}")
        tensor, index = self._left(target)
        keep = None if where is None else as_expr(where)
        form = Update(op, None if isinstance(keep, Const) and keep.value is True else keep, _variables_of(over))
        if all(q.target is not tensor for q in self.equations) and not self._sets_all(form, tensor, index):
            self.define(tensor[self.indices("z", tensor.shape)], 0, source)
        self.equations.append(Equation(tensor, index, _adapted(value, tensor.dtype), source, form))

    def _sets_all(self, form: Update, tensor: Tensor, index: tuple[Expr, ...]) -> bool:
        """Whether an update sets every element, since its index is that of an argsort, whose positions are all different."""
        match index:
            case (Read(tensor=order, index=(Var(extent=n),)),) if (
                form.op == "set" and form.where is None and not form.over
            ):
                sorts = (q.form for q in self.equations if q.target is order and isinstance(q.form, Sorting))
                return tensor.shape == (n,) and any(s.over.extent == n for s in sorts)
        return False

    def _left(self, target: Expr) -> tuple[Tensor, tuple[Expr, ...]]:
        if not isinstance(target, Read):
            raise SpecError(f"{self.op}: an equation must define an element of a tensor, not {target}")
        return target.tensor, target.index

    def _along(self, tensor: Tensor, index: tuple[Expr, ...]) -> Var:
        along = [i for i in index if isinstance(i, Var) and i.name == ":"]
        if len(along) != 1:
            raise SpecError(f"{self.op}: a vector is put along one `:` of {tensor.name}, not {len(along)}")
        return along[0]

    def __str__(self) -> str:
        return "\n".join(map(str, self.equations))


def _variables_of(expressions: Iterable[Expr]) -> tuple[Var, ...]:
    return tuple(sorted(frozenset[Var]().union(*(e.free for e in expressions)), key=lambda v: v.serial))


def _adapted(value: ExprLike, dtype: DType) -> Expr:
    e = adapt(as_expr(value), dtype)
    return e if e.dtype is dtype else cast(e, dtype)
