"""What the prover calls proved never leaves its tensors: random kernels, at random shapes and parameters that their asserts accept.

The oracle reads the spec's own expressions on integers, one element at a time (`evaluate`), and shares nothing with the prover.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from anyshape_gen.analysis import analyse
from anyshape_gen.bounds.check_op import How, verdicts
from anyshape_gen.model.analysis import OpAnalysis, ResolvedEquation
from anyshape_gen.model.nodes import (
    Exact,
    Expr,
    Fit,
    Generator,
    IfExp,
    Name,
    Over,
    Part,
    Placed,
    Reduction,
    Star,
    TensorRead,
)
from anyshape_gen.model.traverse import children
from anyshape_testing.process.profile import LONG
from tests.generator.evaluate import Env, Evaluation, Refused, place

KERNELS = 400 if LONG else 24
CALLS = 400 if LONG else 60
PROVED = {How.STRUCTURAL, How.LINEAR, How.CASES}

SCALAR_ASSERTS = (
    "a > 0",
    "a >= 0",
    "b >= 0",
    "0 <= b and b <= a",
    "a <= n",
    "b < n",
    "a * b <= n",
    "n > 0",
    "m >= n",
    "a + b <= n",
    "a == 0 or b < n",
)
SCALAR_EXTENTS = (
    "n",
    "m",
    "a",
    "n - a",
    "n - a + 1",
    "n * a",
    "n // max(a, 1)",
    "ceil_div(n, max(a, 1))",
    "(n - b) // max(a, 1) + 1",
    "min(n, m)",
    "b",
    "n + b",
)
SCALARS = (
    "i",
    "i + a",
    "i + b",
    "i - b",
    "n - 1 - i",
    "n - i",
    "i // a",
    "i // max(a, 1)",
    "i * a",
    "i * a + j",
    "i % n",
    "i % max(n, 1)",
    "i % a",
    "clamp(i - a, 0, n - 1)",
    "reflect(i - a, n)",
    "min(i, n - 1)",
    "max(i - 1, 0)",
    "i + j",
    "(i + b) % n",
    "i if i < n else 0",
    "abs(i - b)",
    "0",
    "-1",
    "n - 1",
)
SCALAR_GUARDS = ("", "", "i < n", "i > 0", "i >= b", "i + a < n", "i + j < n", "a > 0 and i < n", "i == 0 or i < n")
RUN_ASSERTS = (
    "p >= 0",
    "p > 0",
    "p <= d",
    "all(n > 0 or q == 0 for n, q in zip(d, p))",
    "d > 0",
    "p == 0",
    "len(d) > 0",
)
RUN_EXTENTS = (
    "d",
    "d + p",
    "d * p",
    "d - p",
    "max(d - p, 0)",
    "min(d, p)",
    "put(d, axes, w)",
    "put(d, axes, 1)",
    "d // max(p, 1)",
)
RUNS = (
    "i",
    "i + p",
    "i - p",
    "d - 1 - i",
    "i % d",
    "(i - p) % d",
    "clamp(i - p, 0, d - 1)",
    "reflect(i - p, d)",
    "i * p",
    "i // max(p, 1)",
    "min(i, d - 1)",
    "put(i, axes, 0)",
    "put(i, axes, w)",
    "max(i, p)",
    "put(i, axes, d[axes] - 1)",
)


def scalar_spec(draw: random.Random) -> str:
    asserts = ["a > -9 and b > -9", *draw.sample(SCALAR_ASSERTS, draw.randint(0, 4))]
    index, guard = draw.choice(SCALARS), draw.choice(SCALAR_GUARDS)
    read = f"x[{index}]" + (f" if {guard} else 0" if guard else "")
    kernel = (
        f"y[i] = sum({read} for j in {draw.choice(('k', 'max(a, 0)'))})"
        if "j" in read or draw.random() < 0.2
        else f"y[i] = {read}"
    )
    if guard and "sum" in kernel and draw.random() < 0.5:
        kernel = f"y[i] = sum(x[{index}] for j in k if {guard})"
    return _spec(
        '{x: "f32[n]", u: "f32[m]", v: "f32[k]"}',
        "{a: {kind: int}, b: {kind: int}}",
        draw.choice(SCALAR_EXTENTS),
        asserts,
        kernel,
    )


def update_spec(draw: random.Random) -> str:
    """Updates over ranges and dims, under conditions."""
    asserts = ["a > -9 and b > -9", *draw.sample(SCALAR_ASSERTS, draw.randint(0, 4))]
    first = draw.choice(("n", "s", "range(1, n)", "range(b, s)", "range(a)", "range(m, n)"))
    second = draw.choice(("k", "max(a, 0)", "range(i)", "range(i, n)", "range(i + 1)"))
    tests = [g for g in draw.choices((*SCALAR_GUARDS, "i < s", "j < i", "i + 1 < s", "j < s"), k=2) if g]
    kept = "".join(f" if {g}" for g in tests)
    kernel = f"y[{draw.choice(SCALARS)}] += (x[{draw.choice(SCALARS)}] for i in {first} for j in {second}{kept})"
    return _spec(
        '{x: "f32[n]", u: "f32[m]", v: "f32[k]"}',
        "{a: {kind: int}, b: {kind: int}}",
        draw.choice(("n", "n + 1", "m", "k", "n + k", "max(a, 0)", "n + b")),
        asserts,
        kernel,
    )


def run_spec(draw: random.Random) -> str:
    asserts = ["p > -9 and w > -9 and len(axes) < 9", *draw.sample(RUN_ASSERTS, draw.randint(0, 4))]
    params = '{p: {kind: "ints[len(d)]"}, axes: {kind: "axes"}, w: {kind: "ints[len(axes)]"}}'
    if draw.random() < 0.3:
        asserts += draw.sample(("w >= 0", "w <= d[axes]", "w < d[axes]"), draw.randint(0, 2))
    return _spec(
        '{x: "f32[*d]"}', params, draw.choice(RUN_EXTENTS), asserts, f"y[*i] = x[*({draw.choice(RUNS)})]", run=True
    )


def fitted_spec(draw: random.Random) -> str:
    asserts = draw.sample(
        ("broadcasts(d, e)", "broadcasts(e, d)", "len(d) == len(e)", "d <= e", "e == 1", "len(d) <= len(e)"),
        draw.randint(0, 3),
    )
    extent = draw.choice(("e", "d", "broadcast(d, e)"))
    return _spec('{x: "f32[*d]", u: "f32[*e]"}', "{}", extent, asserts, "y[*i] = x[*i]", run=True)


def axes_spec(draw: random.Random) -> str:
    read = draw.choice(
        (
            "x[*i, *j@axes]",
            "x[*i, *(r - 1 - j)@axes]",
            "x[*i, *(j + 1)@axes]",
            "x[*(i % 2), *j@axes]",
            "x[*i, *(j % r)@axes]",
        )
    )
    lines = ["inputs: {x: 'f32[*o, *r@axes]'}", "params: {axes: {kind: axes}}", "outputs: {y: 'f32[*o, *r@axes]'}"]
    return _body([*lines, f'kernel: "y[*i, *j@axes] = {read}"'])


def _spec(inputs: str, params: str, extent: str, asserts: list[str], kernel: str, run: bool = False) -> str:
    shape = [f"  assert {a}, 'refused'" for a in asserts] + [f"  s = {extent}", "  assert s >= 0, 'refused'"]
    lines = [
        f"inputs: {inputs}",
        f"params: {params}",
        f"outputs: {{y: 'f32[{'*' if run else ''}s]'}}",
        "shape: |",
        *shape,
        f'kernel: "{kernel}"',
    ]
    return _body(lines)


def _body(lines: list[str]) -> str:
    return "ops:\n  an_op:\n    summary: An op.\n" + "".join(f"    {line}\n" for line in lines)


KINDS = {"scalars": scalar_spec, "updates": update_spec, "runs": run_spec, "fitted": fitted_spec, "axes": axes_spec}


# --- the oracle -------------------------------------------------------------------------------------------------------


class Left(Exception):
    """An index out of bounds."""


class Walk:
    """Every read that one call of a kernel makes."""

    def __init__(self, a: OpAnalysis, shapes: dict[str, Any], params: dict[str, Any]) -> None:
        self.evaluation = Evaluation(a)
        self.shapes = {**shapes, **self.evaluation.run(shapes, params)}
        self.env = self.evaluation.env

    def equation(self, q: ResolvedEquation) -> None:
        extents = [self.evaluation.expr(v.extent, self.env) for v in q.vars]
        spaces = [list(itertools.product(*map(range, e))) if v.run else range(e) for v, e in zip(q.vars, extents)]
        for point in itertools.product(*spaces):
            outer = {**self.env, **{v.name: list(x) if v.run else x for v, x in zip(q.vars, point)}}
            for env in self.kept(q.generators, q.filters, outer):
                self.access(q.target.tensor, q.parts, env)
                self.visit(q.value, env)

    def kept(self, generators: tuple[Generator, ...], filters: tuple[Expr, ...], env: Env) -> Iterator[Env]:
        """Every point that the conditions keep."""
        if not generators:
            if all(Evaluation.truth(self.evaluation.expr(c, env)) for c in filters):
                yield env
            return
        domain = self.evaluation.expr(generators[0].domain, env)
        for k in domain if generators[0].over is Over.RANGE else range(domain):
            yield from self.kept(generators[1:], filters, {**env, generators[0].targets[0].name: k})

    def visit(self, e: Any, env: Env) -> None:
        if isinstance(e, TensorRead):
            self.access(e.tensor, e.parts, env)
        elif isinstance(e, IfExp):
            self.visit(e.then if Evaluation.truth(self.evaluation.expr(e.cond, env)) else e.other, env)
        elif isinstance(e, Reduction):
            (g,) = e.generators
            assert g.over is Over.EXTENT
            for k in range(self.evaluation.expr(g.domain, env)):
                inner = {**env, g.targets[0].name: k}
                if all(Evaluation.truth(self.evaluation.expr(c, inner)) for c in e.conditions):
                    self.visit(e.element, inner)
        else:
            for child in children(e):
                self.visit(child, env)

    def access(self, tensor: str, parts: tuple[Part, ...], env: Env) -> None:
        index = [i for part in parts for i in self.part(part, env)]
        shape = self.shapes[tensor]
        if len(index) != len(shape) or not all(0 <= i < n for i, n in zip(index, shape)):
            raise Left(f"{tensor}[{index}] of {shape}")

    def part(self, part: Part, env: Env) -> list[int]:
        match part:
            case Exact(items=items):
                return self.items(items, env)
            case Fit(items=items, extents=extents):
                indices, sizes = self.items(items, env), self.evaluation.expr(extents, env)
                if len(sizes) > len(indices):
                    raise Left(f"{len(indices)} indices for {sizes}")
                return [0 if n == 1 else i for i, n in zip(indices[len(indices) - len(sizes) :], sizes)]
            case Placed(rest=rest, picked=picked, axes=axes):
                return place(self.items(rest, env), self.items(picked, env), self.evaluation.expr(axes, env))
        raise TypeError(part)

    def items(self, items: tuple[Any, ...], env: Env) -> list[int]:
        indices: list[int] = []
        for i in items:
            indices += self.evaluation.expr(i.value, env) if isinstance(i, Star) else [self.evaluation.expr(i, env)]
        return indices


def calls(kind: str, draw: random.Random) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    def size() -> int:
        return draw.choice((0, 1, 1, 2, 3, 4, 5))

    while True:
        if kind in ("scalars", "updates"):
            yield {"x": [size()], "u": [size()], "v": [size()]}, {"a": draw.randint(-2, 4), "b": draw.randint(-2, 4)}
            continue
        shape = [size() for _ in range(draw.randint(0, 3))]
        axes = draw.sample(range(len(shape)), draw.randint(0, len(shape)))
        if kind == "runs":
            yield (
                {"x": shape},
                {"p": [draw.randint(-1, 3) for _ in shape], "axes": axes, "w": [draw.randint(-1, 3) for _ in axes]},
            )
        elif kind == "axes":
            yield {"x": shape}, {"axes": axes}
        else:
            other = [draw.choice((n, n, 1, 2)) for n in shape][draw.randint(0, 1) :]
            yield {"x": shape, "u": other} if draw.random() < 0.5 else {"x": other, "u": shape}, {}


def left(a: OpAnalysis, kind: str, draw: random.Random) -> str | None:
    """A call in which the kernel leaves its tensors; None if none was found."""
    assert a.kernel is not None
    for shapes, params in itertools.islice(calls(kind, draw), CALLS):
        try:
            walk = Walk(a, shapes, params)
            for q in a.kernel.equations:
                walk.equation(q)
        except (Refused, ZeroDivisionError):
            continue
        except Left as e:
            return f"{shapes}, {params}: {e}"
    return None


def _division_by_zero_is_zero(a: int, b: int, f: Any) -> int:
    return f(a, b) if b else 0


@pytest.fixture(autouse=True)
def total_division(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes x // 0 and x % 0 the 0 that they are in a kernel."""
    from tests.generator import evaluate

    for op in ("//", "%"):
        plain = evaluate.OPERATORS[op]
        monkeypatch.setitem(evaluate.OPERATORS, op, lambda a, b, f=plain: _division_by_zero_is_zero(a, b, f))
    monkeypatch.setitem(evaluate.FUNCTIONS, "abs", lambda x: [abs(v) for v in x] if isinstance(x, list) else abs(x))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_proved_stays_inside(kind: str) -> None:
    proved = unproved = outside = 0
    for seed in range(KERNELS):
        draw = random.Random(f"{kind}{seed}")
        text = KINDS[kind](draw)
        a = analyse({"specs/m.yaml": text}, complete=False).op("an_op")
        proofs = verdicts(a)
        escape = left(a, kind, draw)
        if {v.how for v in proofs} <= PROVED:
            assert escape is None, f"declared proved:\n{text}\nbut {escape}"
            proved += 1
        else:
            unproved += 1
            outside += escape is not None
    print(f"{kind}: {proved} proved, {unproved} not, of which {outside} leave their tensors")
    assert proved and outside, "the kernels drawn test nothing"


__all__ = ["Expr", "Name"]
