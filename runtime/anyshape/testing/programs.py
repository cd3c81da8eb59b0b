"""Random programs over all ops of a package: every way of compiling and running one agrees with its nodes read one by one.

A program is drawn step by step from the random calls of the ops, twice at once: on numbers, for the slow reading, and on symbols, for
what is compiled. Results that a slight change of the inputs changes much (the floor of a sum that is nearly 1) are compared no
closer than that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import UnsatisfiedAssumption
from numpy.typing import NDArray

import anyshape
from anyshape.dtypes import from_numpy
from anyshape.errors import AnyshapeError
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.testing.calls import Call, Symbols, input_dtype, random_call, typed, variants
from anyshape.testing.evaluation import evaluate
from anyshape.testing.rewriting import Following
from anyshape.testing.running import PROPERTIES

Array = NDArray[Any]
WAYS: Mapping[str, Mapping[str, Any]] = {
    "native loop": {},
    "Python": {"loop": "python"},
    "one kernel per node": {"fuse": False},
    "one kernel per node, Python": {"fuse": False, "loop": "python"},
}
MOST = 400
"""Elements of a value: the slow reading is slow."""
NUDGE = 1e-5


@dataclass(frozen=True)
class Pair:
    """One value on numbers and on symbols."""

    number: Value
    symbol: Value

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(int(str(n)) for n in self.number.type.shape or ())


@dataclass
class Drawn:
    """A program so far. `pool` is what later steps may take: values whose sizes are known."""

    draw: Any
    ops: list[str]
    arrays: dict[str, Array] = field(default_factory=dict)
    symbols: Symbols = field(default_factory=lambda: Symbols({}))
    params: list[Pair] = field(default_factory=list)
    pool: list[Pair] = field(default_factory=list)
    results: list[Pair] = field(default_factory=list)

    def step(self) -> None:
        """One more op; nothing where what is drawn does not fit."""
        p = PROPERTIES[self.draw(st.sampled_from(self.ops))]
        op = variants(p.op)[0]
        source, dtypes = None, {}
        first = op.inputs[0] if op.inputs else None
        if first is not None and self.pool and not first.variadic:
            source = self.draw(st.sampled_from(self.pool[-6:]))
            name = source.number.type.dtype.name
            if name not in op.dtypes.get(first.dtype, (first.dtype,)):
                return
            dtypes = {first.dtype: name} if first.dtype in op.dtypes else {}
        known = (len(self.params), dict(self.arrays), dict(self.symbols.numbers), len(self.pool))
        try:
            c = random_call(p, self.draw, dtypes, Following(self.draw, source.shape) if source is not None else None)
            self._take(c, source)
        except (AnyshapeError, UnsatisfiedAssumption):
            del self.params[known[0] :], self.pool[known[3] :]
            self.arrays, self.symbols.numbers = known[1], known[2]

    def _take(self, c: Call, source: Pair | None) -> None:
        operands: list[Any] = []
        for k, i in enumerate(c.op.inputs):
            drawn = c.inputs[i.name]
            if drawn is None or isinstance(drawn, list):
                operands.append([self._operand(a, i.name in _ranges(c)) for a in drawn] if drawn else None)
            elif k == 0 and source is not None:
                if drawn.shape != source.shape or source.number.type.dtype != input_dtype(i, c.dtypes):
                    reject()
                operands.append(source)
            else:
                operands.append(self._operand(drawn, i.name in _ranges(c)))
        numbers = call(c.op, [_of(x, "number") for x in operands], c.params)
        symbols = call(c.op, [_of(x, "symbol") for x in operands], c.params)
        for n, s in zip(numbers, symbols, strict=True):
            if n.type.shape is None or s.type.shape is None:
                reject()
            sizes = [d for d in n.type.shape if isinstance(d, int)]
            if int(np.prod(sizes)) > MOST:
                reject()
        for n, s in zip(numbers, symbols, strict=True):
            self.results.append(Pair(n, s))
            if all(isinstance(d, int) for d in n.type.shape or ()):
                self.pool.append(self.results[-1])

    def _operand(self, a: Array, is_index: bool) -> Pair:
        """A value that fits, or a new parameter."""
        if a.size > MOST:
            reject()
        fitting = [v for v in self.pool if v.shape == a.shape and v.number.type.dtype == from_numpy(a.dtype)]
        if fitting and not is_index and self.draw(st.booleans()):
            return fitting[-1]
        name = f"p{len(self.params)}"
        self.arrays[name] = a
        pair = Pair(typed(a, name), self.symbols(a, name))
        self.params.append(pair)
        if not is_index:
            self.pool.append(pair)
        return pair


def _of(x: Any, which: str) -> Any:
    return [getattr(v, which) for v in x] if isinstance(x, list) else None if x is None else getattr(x, which)


def _ranges(c: Call) -> Mapping[str, Any]:
    return c.recipe.case.ranges if c.recipe is not None else {}


def check_programs(ops: list[str], examples: int, record: Callable[[str, Any], None]) -> None:
    counts = {"drawn": 0, "accepted": 0, "nodes": 0}

    @settings(max_examples=examples)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        counts["drawn"] += 1
        d = Drawn(data.draw, ops)
        for _ in range(data.draw(st.integers(2, 8))):
            d.step()
        if len(d.results) < 2:
            reject()
        agree(d)
        counts["accepted"] += 1
        counts["nodes"] += len(d.results)

    run()
    said = {"law": "several ops at random", "op": f"{counts['nodes']} nodes", **counts}
    for key, value in said.items():
        record(key, value)


def agree(d: Drawn) -> None:
    results = d.results[-3:]
    with np.errstate(all="ignore"):
        want = evaluate([r.number for r in results], d.arrays)
        near = evaluate([r.number for r in results], {k: _nudged(a) for k, a in d.arrays.items()})
    f = Function([p.symbol for p in d.params], [r.symbol for r in results])
    first: list[Array] | None = None
    for way, options in WAYS.items():
        exe = anyshape.compile(f, **options)
        got = exe.run({name: d.arrays[name] for name in exe.input_names})
        for k, (g, w, n) in enumerate(zip(got, want, near, strict=True)):
            close(g, w, n, f"{way}, result {k} of\n{f}")
        if way == "Python":
            for g, w in zip(got, first or (), strict=True):
                assert g.tobytes() == w.tobytes(), f"Python against native loop of\n{f}"
        first = first if first is not None else got


def _nudged(a: Array) -> Array:
    return np.asarray(a * (1 + NUDGE)).astype(a.dtype) if a.dtype.kind == "f" else a


def close(got: Array, want: Array, near: Array, where: str) -> None:
    """`near`: what slightly other inputs give; where its shape is another, nothing can be said."""
    assert got.dtype == want.dtype, where
    if near.shape != want.shape:
        return
    assert got.shape == want.shape, f"{where}: shape {got.shape} in place of {want.shape}"
    with np.errstate(all="ignore"):
        g, w, n = (a.astype(np.float64) for a in (got, want, near))
        finite = w[np.isfinite(w)]
        scale = max(1.0, float(np.abs(finite).max(initial=0.0))) if want.dtype.kind == "f" else 0.0
        moved = np.abs(n - w)
        good = (np.abs(g - w) <= 1e-4 * scale + 50 * moved) | (g == w) | (np.isnan(g) & np.isnan(w))
        unstable = ~np.isfinite(w) | ~np.isfinite(n) | (np.abs(w) > 1e30)
    assert (good | unstable).all(), f"{where}\ngot {got!r}\nin place of {want!r}"
