"""A slow, obvious evaluation of a resolved kernel, straight from the model: one element at a time, in Python numbers.

In: an `Evaluation` of the op's rule, arrays of the inputs. Out: arrays of the outputs. It tests what the resolver says about
extents and reads, before any emitter has touched it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anyshape.dtypes import from_numpy, highest, lowest, parse_dtype
from anyshape.equations.philox import numbers
from anyshape_gen.model.analysis import IndexVar, ResolvedEquation, Role
from anyshape_gen.model.nodes import (
    Along,
    BinOp,
    Call,
    Comprehension,
    Exact,
    Expr,
    Fit,
    Flat,
    Int,
    Item,
    Name,
    Offset,
    Over,
    Part,
    Placed,
    Reduction,
    Star,
    TensorRead,
)
from anyshape_gen.model.traverse import walk
from tests.generator.evaluate import OPERATORS, DataSize, Env, Evaluation, place, spread

MATH = {
    **{
        name: getattr(np, name)
        for name in ("exp", "expm1", "log", "log1p", "sqrt", "tanh", "sin", "cos", "floor", "ceil", "fmod")
    },
    "erf": math.erf,
    "abs": abs,
    "round_even": np.rint,
    "trunc_div": lambda a, b: _trunc_div(a, b),
    "wrap": lambda i, n: i + n if i < 0 else i,
    "bit_and": lambda a, b: a & b,
    "bit_or": lambda a, b: a | b,
    "bit_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
}


UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "+=": lambda a, b: a + b, "-=": lambda a, b: a - b, "*=": lambda a, b: a * b, "max": max, "min": min,
}  # fmt: skip


def _runs(node: Comprehension) -> bool:
    """Whether a comprehension counts positions, rather than going through items."""
    return all(g.over in (Over.EXTENT, Over.EXTENTS, Over.RANGE) for g in node.generators)


def _trunc_div(a: Any, b: Any) -> Any:
    if not isinstance(a, int):
        return math.trunc(a / b)
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _is_whole(value: Any, dtype: np.dtype[Any]) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and dtype.kind in "iu"


def _saturated(value: Any, low: int, high: int) -> int:
    """Casts a number to an integer: truncated, the nearest end out of the range, 0 for NaN."""
    return 0 if value != value else high if value >= high else low if value <= low else int(value)


def _wrapped(value: int, dtype: np.dtype[Any]) -> int:
    return int(np.uint64(value % 2**64).astype(dtype))


@dataclass
class KernelEvaluation(Evaluation):
    """Runs the equations of one call."""

    dtypes: dict[str, Any] = field(default_factory=dict)
    tensors: dict[str, Any] = field(default_factory=dict)
    whole: dict[str, np.dtype[Any]] = field(default_factory=dict)
    """The dtypes of scratch that is of integers"""

    def kernel(self, tensors: dict[str, Any], outputs: dict[str, Any], dtypes: dict[str, Any]) -> None:
        """Fills the output arrays (of a variadic output, a list of arrays)."""
        kernel = self.analysis.kernel
        assert kernel is not None
        self.dtypes = dtypes
        self.tensors = {**tensors, **outputs}
        scratch = {s.name: s.shape for s in kernel.scratch}
        said = {s.name: np.dtype(dtypes[s.dtype]) for s in kernel.scratch if s.dtype in dtypes}
        self.whole = {name: dtype for name, dtype in said.items() if dtype.kind in "iu"}
        waiting = [e.target.tensor for e in kernel.equations]
        begun: set[str] = set()
        for cycle, members in itertools.groupby(kernel.equations, lambda e: (e.cycle, id(e) if e.cycle < 0 else 0)):
            self.unbacked(waiting)
            own = list(members)
            waiting = waiting[len(own) :]
            for equation in own:
                name = equation.target.tensor
                if name not in self.tensors:
                    self.tensors[name] = np.full(self.expr(scratch[name], self.env), np.nan, object)
                if equation.op != "=" and name not in begun:  # what updates alone define is zero before them
                    for tensor in several if isinstance(several := self.tensors[name], list) else [several]:
                        tensor[...] = 0
                begun.add(name)
            held = [e for e in own if all(self.truth(self.expr(condition, self.env)) for condition in e.conditions)]
            if cycle[0] < 0:
                for equation in held:
                    self.equation(equation)
            elif held:
                self.recurrence(held)

    def unbacked(self, waiting: list[str]) -> None:
        """Sizes that can be counted by now: of nothing that is still to be written."""
        assert self.analysis.kernel is not None
        for unbacked in self.analysis.kernel.unbacked:
            reads = {node.tensor for node in walk(unbacked.value) if isinstance(node, TensorRead)}
            if isinstance(self.env[unbacked.name], DataSize) and reads <= set(self.tensors) - set(waiting):
                self.env[unbacked.name] = self.expr(unbacked.value, self.env)

    def demands(self, tensors: dict[str, Any]) -> None:
        """Asserts that read values."""
        self.tensors = dict(tensors)
        for check in self.analysis.reading:
            self.rule((check,))

    def recurrence(self, equations: list[ResolvedEquation]) -> None:
        """Position by position, all equations at each."""
        first = equations[0]
        extent = self.expr(next(v.extent for v in first.vars if v.name == first.recurrence), self.env)
        positions = range(extent)
        for at in reversed(positions) if first.backward else positions:
            for equation in equations:
                assert equation.recurrence is not None
                self.equation(equation, {equation.recurrence: at})

    def equation(self, equation: ResolvedEquation, fixed: Env | None = None) -> None:
        for env in self._positions(equation):
            if fixed is not None and any(env[name] != at for name, at in fixed.items()):
                continue
            tensor = self.tensors[equation.target.tensor]
            if equation.target.element is not None:
                tensor = tensor[self.expr(equation.target.element, env)]
            if any(isinstance(part, Along) for part in equation.parts):
                self._vector(equation, tensor, env)
            else:
                at = self._at(equation.parts, env)
                value = self.expr(equation.value, env)
                result = value if equation.op in ("=", "set") else UPDATES[equation.op](tensor[at], value)
                tensor[at] = self._held(result, equation.target.tensor, tensor)

    def _held(self, value: Any, name: str, tensor: Any) -> Any:
        """What a place of a tensor keeps: integers wrap, in scratch too where it says that it is of integers."""
        dtype = self.whole.get(name, tensor.dtype)
        return _wrapped(value, dtype) if _is_whole(value, dtype) else value

    def _vector(self, equation: ResolvedEquation, tensor: Any, env: Env) -> None:
        """A vector along `:`: its items one after the other, or their order."""
        match equation.value:
            case Call("argsort", (Comprehension() as items,), keywords):
                descending = any(self.truth(self.expr(value, env)) for _, value in keywords)
                keys = [self.expr(items.element, iteration) for iteration in self._iterations(items, env)]
                vector = sorted(
                    range(len(keys)),
                    key=lambda k: ((keys[k] != keys[k]) != descending, -keys[k] if descending else keys[k]),
                )
            case Comprehension() as items:
                vector = [self.expr(items.element, iteration) for iteration in self._iterations(items, env)]
            case _:
                raise AssertionError(equation)
        at: list[Any] = []
        for part in equation.parts:
            at += [slice(None)] if isinstance(part, Along) else self._at((part,), env)
        tensor[tuple(at)] = vector

    def _iterations(self, node: Comprehension | Reduction, env: Env) -> list[Env]:
        return (
            self._reduction_iterations(node, env)
            if isinstance(node, Reduction) or _runs(node)
            else super()._iterations(node, env)
        )

    def _positions(self, equation: ResolvedEquation) -> Iterator[Env]:
        # Extents may depend on element variables (`n[v]`), so these come first.
        iterations = self._with(sorted(equation.around, key=lambda v: v.role != Role.ELEMENT), [self.env])
        if equation.generators:
            iterations = [
                inner
                for env in iterations
                for inner in self._iterations(Reduction("", Int(0), equation.generators), env)
            ]
        yield from [env for env in self._with(equation.within, iterations) if self._is_made(equation, env)]

    def _with(self, variables: Iterable[IndexVar], iterations: list[Env]) -> list[Env]:
        for var in variables:
            iterations = [
                {**env, var.name: at} for env in iterations for at in self._range(self.expr(var.extent, env), var.run)
            ]
        return iterations

    def _is_made(self, equation: ResolvedEquation, env: Env) -> bool:
        return all(self.truth(self.expr(c, env)) for c in equation.filters)

    @staticmethod
    def _range(extent: Any, run: bool) -> list[Any]:
        if not run:
            return list(range(extent))
        return [list(at) for at in itertools.product(*(range(n) for n in extent))]

    # --- indices ----------------------------------------------------------------------------------------------------------

    def _at(self, parts: tuple[Part, ...], env: Env) -> tuple[int, ...]:
        out: list[int] = []
        for part in parts:
            match part:
                case Exact(items=items):
                    out += self._flat(items, env)
                case Fit(items=items, extents=extents):
                    to = self.expr(extents, env)
                    at = self._flat(items, env)
                    out += [0 if n == 1 else k for k, n in zip(at[len(at) - len(to) :], to)]
                case Placed(rest=rest, picked=picked, axes=axes):
                    out += place(self._flat(rest, env), self._flat(picked, env), self.expr(axes, env))
                case Flat(items=items, factors=factors):
                    position = 0
                    for item, factor in zip(items, factors):
                        position = position * self.expr(factor, env) + self.expr(item, env)
                    out.append(position)
                case Offset(element=element, within=within, sizes=sizes):
                    out.append(sum(self.expr(sizes, env)[: self.expr(element, env)]) + self.expr(within, env))
        return tuple(out)

    def _flat(self, items: tuple[Item, ...], env: Env) -> list[int]:
        out: list[int] = []
        for item in items:
            out += self.expr(item.value, env) if isinstance(item, Star) else [int(self.expr(item, env))]
        return out

    # --- expressions ------------------------------------------------------------------------------------------------------

    def expr(self, node: Expr, env: Env) -> Any:
        match node:
            case TensorRead():
                return self._read(node, env)
            case Reduction(kind="argmax" | "argmin"):
                return self._place(node, env)
            case Reduction(kind=kind, element=element):
                values = [self.expr(element, iteration) for iteration in self._reduction_iterations(node, env)]
                if kind in ("max", "min") and not values:
                    return -math.inf if kind == "max" else math.inf
                return self._reduce(kind, values)
            case Call(func=func, args=args) if func in MATH:
                return spread(MATH[func], *self._items(args, env))
            case Call():
                return self._of_dtypes(node, env)
            case BinOp(op=op, left=left, right=right):
                sides = self.expr(left, env), self.expr(right, env)
                if any(isinstance(x, np.float32) for x in sides):
                    sides = np.float32(sides[0]), np.float32(sides[1])
                return spread(OPERATORS[op], *sides)
        return super().expr(node, env)

    def _read(self, node: TensorRead, env: Env) -> Any:
        tensor = self.tensors.get(node.tensor)
        if tensor is None:
            assert node.absent is not None
            return self.expr(node.absent, env)
        chosen = tensor if node.element is None else tensor[self.expr(node.element, env)]
        at = self._at(node.parts, env)
        if not all(0 <= k < n for k, n in zip(at, chosen.shape, strict=True)):
            assert node.outside is not None, (node.tensor, at, chosen.shape)
            return self.expr(node.outside, env)
        return self._number(chosen[at])

    def _of_dtypes(self, node: Call, env: Env) -> Any:
        """Functions that ask for a dtype, or give a value of one; any other as a rule has it."""
        match node:
            case Call(func="is_int", args=(Name(id=var),)):
                return np.issubdtype(self.dtypes[var], np.integer)
            case Call(func="is_float", args=(Name(id=var),)):
                return np.issubdtype(self.dtypes[var], np.floating)
            case Call(func="is_narrow_float", args=(Name(id=var),)):
                return from_numpy(self.dtypes[var]).is_narrow_float
            case Call(func="saturate", args=(inner, Name(id=var))) if from_numpy(self.dtypes[var]).is_narrow_float:
                t = from_numpy(self.dtypes[var])
                return np.asarray(np.clip(self.expr(inner, env), lowest(t), highest(t))).astype(self.dtypes[var])[()]
            case Call(func="saturate", args=(inner, Name(id=var))):
                t = from_numpy(self.dtypes[var])
                return _saturated(self.expr(inner, env), lowest(t), highest(t))
            case Call(func="lowest" | "highest" as func, args=(Name(id=var),)):
                return (lowest if func == "lowest" else highest)(from_numpy(self.dtypes[var]))
            case Call(func=func, args=(Call(func="philox", args=words),)):
                return self._number(
                    numbers(*map(np.asarray, self._items(words, env)), from_numpy(self.dtypes.get(func, func)))[()]  # type: ignore[call-arg]
                )
            case Call(func="f32", args=(inner,)):
                value = self.expr(inner, env)  # what is done with it is rounded as in f32
                return np.float32(value) if isinstance(value, int) else value
            case Call(func=func, args=(inner,)) if func in self.dtypes:
                value, dtype = self.expr(inner, env), np.dtype(self.dtypes[func])
                return _wrapped(value, dtype) if _is_whole(value, dtype) else self._number(self.dtypes[func](value))
            case Call(func="i32" | "i64" as func, args=(inner,)):
                value, ends = self.expr(inner, env), np.iinfo("int" + func[1:])
                return _saturated(value, ends.min, ends.max) if isinstance(value, (float, np.floating)) else value
            case Call(func="char", args=(inner,)):
                return np.uint32(self.expr(inner, env))
            case Call(func="f64", args=(inner,)):
                return self.expr(inner, env)
            case Call(func="bitcast", args=(TensorRead(tensor=name) as inner, Name(id=var))):
                held = np.asarray(self.expr(inner, env), self.tensors[name].dtype)
                to = np.dtype(self.dtypes[var]) if var in self.dtypes else parse_dtype(var).numpy
                codes = held.view(f"u{held.itemsize}")
                kept = codes & ((1 << from_numpy(to).code_bits) - 1) if to.kind != "b" else codes != 0
                return self._number(np.asarray(kept).view(to)[()])
            case Call(func="cast", args=(inner, _)):
                return self.expr(inner, env)
        return super().expr(node, env)

    def _place(self, node: Reduction, env: Env) -> int:
        """The first place of an extreme, counted among all turns; as many as there are bits where no turn is wanted."""
        every = self._reduction_iterations(replace(node, conditions=()), env)
        selected = [
            k for k, iteration in enumerate(every) if all(self.truth(self.expr(c, iteration)) for c in node.conditions)
        ]
        values = [self.expr(node.element, every[k]) for k in selected]
        return selected[int(getattr(np, node.kind)(values))] if selected else 2**63 - 1

    @staticmethod
    def _number(value: Any) -> Any:
        """NumPy's floats divide by zero and overflow, which Python's refuse; integers are Python's."""
        if isinstance(value, np.floating):
            return np.float64(value)
        return value.item() if isinstance(value, np.generic) else value

    def _reduction_iterations(self, node: Comprehension | Reduction, env: Env) -> list[Env]:
        iterations = [env]
        for generator in node.generators:
            if len(generator.targets) > 1:
                return super()._iterations(node, env)
            (target,) = generator.targets
            further = []
            for inner in iterations:
                domain = self.expr(generator.domain, inner)
                over = generator.over in (Over.EXTENT, Over.EXTENTS)
                further += [{**inner, target.name: at} for at in (self._range(domain, target.run) if over else domain)]
            iterations = further
        return [
            iteration for iteration in iterations if all(self.truth(self.expr(c, iteration)) for c in node.conditions)
        ]
