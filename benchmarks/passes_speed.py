"""How long the passes take: dyn-to-static against the size of a graph, and on a BERT in which nothing changes.

Run: python -m benchmarks.passes_speed. Each figure is the least of a few runs, without the cost of building the graph. Families of
graphs: reshape chains with dims of at least 1 and with dims that may be 0, encoders in which most nodes are no shape arithmetic, shape
arithmetic alone, branches and loops with bodies, cuts at computed bounds, branches within branches in one loop, shapes of thousands
of inputs joined, and thousands of reshapes by one shape.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

import anyshape
from anyshape import control, ops, passes
from anyshape.graph import infer
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.types import parse_type


def reshapes(nodes: int, low: int = 1) -> Function:
    """A chain of dyn reshapes by computed shapes, as exporters write them: every second becomes static, every other stays symbolic.
    `low`: what every dim is at least; the main variant of a program assumes 1."""
    start = y = anyshape.input("x", parse_type("f32[batch, seq, 64]", low=low))
    for _ in range(nodes // 10):  # ten nodes a turn
        sizes = ops.shape_of(y)
        width = ops.slice(sizes, (2,), (3,), (0,))
        flat = ops.dyn.reshape(ops.exp(y), ops.concat([[-1], width], axis=0))
        back = ops.concat([ops.slice(sizes, (0,), (2,), (0,)), [-1]], axis=0)
        y = ops.neg(ops.dyn.reshape(ops.exp(flat), back))
    return anyshape.function([start], y)


def reshapes_of_nothing(nodes: int) -> Function:
    """Makes the model of `reshapes` with dims each of which may be 0."""
    return reshapes(nodes, low=0)


def arithmetic(nodes: int) -> Function:
    """Sizes computed from sizes: sums, products, halves and cuts, each of another number, that shape something at every turn."""
    x = anyshape.input("x", parse_type("f32[batch, seq]", low=1))
    total = x
    for k in range(nodes // 10):  # ten nodes a turn
        batch, seq = (ops.shape_of(x, start=axis, end=axis + 1) for axis in (0, 1))
        half = ops.div(ops.add(seq, k % 7), 2)
        sizes = ops.concat([ops.mul(batch, 1), ops.add(half, ops.sub(seq, half))], axis=0)
        total = ops.add(total, ops.broadcast_to(0.5, sizes))
    return anyshape.function([x], total)


def bodies(nodes: int) -> Function:
    """Branches and loops, one after the other, with shape arithmetic inside."""
    x, deep = anyshape.input("x", parse_type("f32[batch, seq, 4]", low=1)), anyshape.input("deep", "bool[]")
    y = x
    for k in range(nodes // 20):  # twenty nodes a turn, those of the bodies included
        (y,) = control.if_(deep, lambda v=y: _folded(v), lambda v=y: ops.neg(ops.exp(v)))
        (y,) = control.loop(k % 3, lambda turn, v: [_folded(v)], [y])
    return anyshape.function([x, deep], y)


def _folded(y: Value) -> Value:
    sizes = ops.shape_of(y)
    flat = ops.reshape(ops.exp(y), ops.concat([[-1], ops.slice(sizes, (2,), (3,))], axis=0))
    return ops.reshape(ops.tanh(flat), sizes)


def encoders(nodes: int) -> Function:
    """Makes an encoder with as many layers as give that many nodes."""
    return bert(max(1, round(nodes / 53)), width=64, heads=4)


def slices(nodes: int) -> Function:
    """Halves that change places, as rotary embeddings cut them: every cut is at a bound computed from a length."""
    start = y = anyshape.input("x", parse_type("f32[batch, seq]", low=1))
    for _ in range(nodes // 6):  # six nodes a turn
        length = ops.shape_of(y, start=1, end=2)
        half = ops.div(length, 2)
        y = ops.concat([ops.neg(ops.slice(y, half, length, [1])), ops.slice(y, [0], half, [1])], axis=1)
    return anyshape.function([start], y)


def nested(nodes: int) -> Function:
    """Makes one loop whose body is branches within branches, each with shape arithmetic."""
    x, deep = anyshape.input("x", parse_type("f32[batch, seq, 4]", low=1)), anyshape.input("deep", "bool[]")

    def either(v: Value, depth: int) -> Value:
        if not depth:
            return _folded(v)
        (chosen,) = control.if_(deep, lambda: either(v, depth - 1), lambda: ops.neg(v))
        return chosen

    def turn(_: Value, v: Value) -> list[Value]:
        for _ in range(nodes // 15):  # fifteen nodes a branch, those of the branches inside included
            v = either(v, 4)
        return [v]

    (y,) = control.loop(3, turn, [x])
    return anyshape.function([x, deep], y)


def wide(nodes: int) -> Function:
    """Makes one shape joined of those of many inputs, some hundred dims wide, that one tensor is made of."""
    parts = [
        anyshape.input(f"x{k}", parse_type(f"f32[n{k}]", low=1)) for k in range(nodes // 3)
    ]  # three nodes an input
    lengths = [ops.shape_of(ops.exp(p)) for p in parts]
    total = ops.sum(ops.concat([ops.mul(n, 2) for n in lengths], axis=0), axes=(0,), keepdims=True)
    return anyshape.function(parts, ops.broadcast_to(0.5, total))


def equal_reshapes(nodes: int) -> Function:
    """Thousands of reshapes of many values by one computed shape."""
    x = anyshape.input("x", parse_type("f32[batch, seq, 64]", low=1))
    sizes = ops.concat([ops.slice(ops.shape_of(x), (0,), (2,), (0,)), [8, 8]], axis=0)
    total = ops.dyn.reshape(x, sizes)
    for k in range(nodes // 3):  # three nodes a turn
        total = ops.add(total, ops.dyn.reshape(ops.mul(x, float(k)), sizes))
    return anyshape.function([x], total)


FAMILIES: dict[str, Callable[[int], Function]] = {
    "reshapes": reshapes,
    "reshapes, dims may be 0": reshapes_of_nothing,
    "encoders": encoders,
    "arithmetic of sizes": arithmetic,
    "branches and loops": bodies,
    "slices by computed bounds": slices,
    "branches in branches in a loop": nested,
    "wide shapes": wide,
    "reshapes by equal shapes": equal_reshapes,
}
PASSES: dict[str, Callable[[Function], Function]] = {"dyn_to_static": passes.dyn_to_static, "optimise": passes.optimise}


def bert(layers: int = 12, width: int = 768, heads: int = 12) -> Function:
    """An encoder over inputs of any batch and length; the weights are inputs, since the passes do not look into them."""
    weights: dict[str, Value] = {}

    def weight(name: str, *shape: int) -> Value:
        weights[name] = anyshape.input(name, f"f32[{', '.join(map(str, shape))}]")
        return weights[name]

    def dense(x: Value, name: str, n: int, m: int) -> Value:
        return ops.add(ops.matmul(x, weight(f"{name}.w", n, m)), weight(f"{name}.b", m))

    x = ids = anyshape.input("x", f"f32[batch, seq, {width}]")
    each = width // heads
    for k in range(layers):

        def heads_of(v: Value) -> Value:
            shape = ops.concat([ops.shape_of(v, end=2), [heads, each]], axis=0)
            return ops.transpose(ops.reshape(v, shape), axes=(0, 2, 1, 3))

        q, keys, values = (heads_of(dense(x, f"{k}.{p}", width, width)) for p in "qkv")
        scores = ops.softmax(ops.div(ops.matmul(q, ops.transpose(keys, axes=(0, 1, 3, 2))), 8.0), axis=-1)
        mixed = ops.transpose(ops.matmul(scores, values), axes=(0, 2, 1, 3))
        joined = ops.reshape(mixed, ops.concat([ops.shape_of(mixed, end=2), [width]], axis=0))
        x = _norm(ops.add(x, dense(joined, f"{k}.o", width, width)), weight, f"{k}.n1", width)
        inner = ops.gelu(dense(x, f"{k}.up", width, 4 * width))
        x = _norm(ops.add(x, dense(inner, f"{k}.down", 4 * width, width)), weight, f"{k}.n2", width)
    return anyshape.function([ids, *weights.values()], x).specialize(batch=(1, None), seq=(1, None))


def _norm(x: Value, weight: Callable[..., Value], name: str, width: int) -> Value:
    """A layer norm spelled out, as older exporters do."""
    centered = ops.sub(x, ops.mean(x, axes=(-1,), keepdims=True))
    spread = ops.mean(ops.mul(centered, centered), axes=(-1,), keepdims=True)
    scaled = ops.div(centered, ops.sqrt(ops.add(spread, 1e-5)))
    return ops.add(ops.mul(scaled, weight(f"{name}.g", width)), weight(f"{name}.b", width))


def least(run: Callable[[], object], times: int = 3) -> float:
    """Processor seconds of the fastest of a few runs; the collector is quiet, so that the size of the heap is not what is measured."""
    best = float("inf")
    for _ in range(times):
        gc.collect()
        gc.disable()
        start = time.process_time()
        run()
        best = min(best, time.process_time() - start)
        gc.enable()
    return best


def growth(graphs: Sequence[Function], run: str) -> tuple[float, float, float]:
    """Seconds of a pass on a small and a large graph, and their ratio."""
    small, large = (least(lambda f=f: PASSES[run](f)) for f in graphs)
    return small, large, large / small


def main() -> None:
    print(
        f"{'graphs':24} {'pass':14} {'1,000 nodes':>12} {'10,000 nodes':>13} {'ratio (wanted: at most 12)':>27}",
        flush=True,
    )
    for family, family_of in FAMILIES.items():
        graphs = [family_of(n) for n in (1_000, 10_000)]
        for run in PASSES:
            a, b, ratio = growth(graphs, run)
            print(f"{family:24} {run:14} {a * 1e3:9.0f} ms {b * 1e3:10.0f} ms {ratio:27.1f}", flush=True)
    f = bert()
    first = least(lambda: passes.optimise(f), 1)
    done = passes.optimise(f)
    again = least(lambda: passes.optimise(done))
    dyn = least(lambda: passes.dyn_to_static(done))
    print(
        f"BERT, 12 layers, {len(done.nodes)} nodes: all passes {first * 1e3:.0f} ms; where nothing changes: all {again * 1e3:.0f} ms,"
    )
    print(f"  dyn_to_static {dyn * 1e3:.0f} ms (wanted: under 300)")
    with forgetful():
        print(f"  all passes where every call is inferred anew: {least(lambda: passes.optimise(f)) * 1e3:.0f} ms")


@contextmanager
def forgetful() -> Iterator[None]:
    """Forgets all that was inferred before."""
    with patch.object(infer, "question_of", lambda *_: None):
        yield


if __name__ == "__main__":
    main()
