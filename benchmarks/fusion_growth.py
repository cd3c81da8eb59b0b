"""How fusion grows with the graph: what it takes at 1,000, 3,000 and 10,000 nodes, and the exponent by which it grows.

    python -m benchmarks.fusion_growth [SHAPE…] [--nodes 1000 3000 10000] [--counted]

Shapes of graphs are drawn from a seed: a chain of maps, a ladder (two chains that read each other), wide layers, maps of any of the values
before, one value that all later nodes read, maps between views, a node of many results, contractions of one operand, skips over all that is
further in, and layers of a transformer. An exponent of 1 is time in proportion. Times are the least of three runs, processor seconds;
`--counted` counts functions called instead, which is the same on every machine.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from functools import partial

import anyshape
from anyshape import ops
from anyshape.graph.function import Function
from anyshape.graph.value import Value
from anyshape.passes.fuse import fuse
from benchmarks.passes_speed import bert, least
from tests.counting import calls

NODES = (1_000, 3_000, 10_000)


def _maps(r: random.Random, *vs: Value) -> Value:
    """A map of one or two values, or now and then a row reduction or a move, so that groups end."""
    kind = r.random()
    if kind < 0.05:
        return ops.softmax(vs[0], axis=-1)
    if kind < 0.08:
        return ops.transpose(vs[0], axes=[1, 0])
    if kind < 0.4 or len(vs) > 1:
        return ops.add(vs[0], vs[-1])
    return r.choice((ops.exp, ops.neg, ops.tanh))(vs[0])


def _start() -> Value:
    return anyshape.input("x", "f32[n, n]")


def chain(nodes: int) -> Function:
    r, x = random.Random(nodes), _start()
    y = x
    for _ in range(nodes):
        y = _maps(r, y)
    return anyshape.function([x], y)


def ladder(nodes: int) -> Function:
    r, x = random.Random(nodes), _start()
    a, b = x, ops.exp(x)
    for _ in range(nodes // 2):
        a, b = _maps(r, a, b), _maps(r, b, a)
    return anyshape.function([x], [a, b])


def wide(nodes: int) -> Function:
    """Layers of a hundred values, each of two of the layer before."""
    r, x = random.Random(nodes), _start()
    layer = [ops.mul(x, float(k)) for k in range(100)]
    for _ in range(nodes // 100 - 1):
        layer = [_maps(r, *r.sample(layer, 2)) for _ in layer]
    return anyshape.function([x], layer)


def drawn(nodes: int) -> Function:
    """Makes a function whose nodes each read one or two of all values before them."""
    r, x = random.Random(nodes), _start()
    values = [x]
    for _ in range(nodes):
        values.append(_maps(r, *r.choices(values, k=r.choice((1, 2)))))
    return anyshape.function([x], values[nodes // 2 :])


def read_by_all(nodes: int) -> Function:
    """A chain every node of which reads the first value too."""
    r, x = random.Random(nodes), _start()
    first = y = ops.softmax(x, axis=-1)
    for _ in range(nodes):
        y = _maps(r, y, first)
    return anyshape.function([x], y)


def views(nodes: int) -> Function:
    """Maps between which heads are split, moved and merged."""
    y = x = anyshape.input("x", "f32[n, 4, 8]")
    for _ in range(nodes // 4):
        flat = ops.neg(ops.reshape(y, [0, 32]))
        y = ops.transpose(ops.reshape(flat, [-1, 8, 4]), axes=[0, 2, 1])
    return anyshape.function([x], y)


def split(nodes: int) -> Function:
    """Makes one node of many results, each with maps of its own, and a concat of them all."""
    pieces = nodes // 4
    x = anyshape.input("x", f"f32[{pieces}, n]")
    parts = ops.split(x, axis=0, sizes=[1] * pieces)
    return anyshape.function([x], ops.concat([ops.tanh(ops.softmax(ops.exp(p), axis=-1)) for p in parts], axis=0))


def beside(nodes: int) -> Function:
    """Many contractions of one operand, read one after the other by a chain."""
    x, *weights = (
        anyshape.input("x", "f32[n, 16]"),
        *(anyshape.input(f"w{k}", "f32[16, 16]") for k in range(nodes // 4)),
    )
    y = x
    for product in [ops.matmul(x, w) for w in weights]:
        y = ops.softmax(ops.add(y, ops.softmax(product, axis=0)), axis=1)
    return anyshape.function([x, *weights], y)


def skips(nodes: int) -> Function:
    """What is made on the way down is read again on the way up."""
    x = _start()
    values = [x]
    for k in range(nodes // 2):
        values.append(ops.softmax(values[-1], axis=-1) if k % 5 == 0 else ops.exp(values[-1]))
    y = values[-1]
    for v in reversed(values[1:]):
        y = ops.add(ops.neg(y), v)
    return anyshape.function([x], y)


def transformer(nodes: int) -> Function:
    return bert(max(1, round(nodes / 53)), width=64, heads=4)


SHAPES: dict[str, Callable[[int], Function]] = {
    "chain": chain,
    "ladder": ladder,
    "wide": wide,
    "drawn": drawn,
    "read by all": read_by_all,
    "views": views,
    "split": split,
    "beside": beside,
    "skips": skips,
    "transformer": transformer,
}


def exponent(sizes: Sequence[float], amounts: Sequence[float]) -> float:
    """The slope of the line through the logarithms."""
    xs, ys = ([math.log(v) for v in values] for values in (sizes, amounts))
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--nodes", nargs="+", type=int, default=NODES)
    parser.add_argument("--counted", action="store_true", help="functions called instead of seconds")
    options = parser.parse_args()
    print(f"{'graph':12} " + " ".join(f"{n:>12,}" for n in options.nodes) + "   exponent", flush=True)
    for name in options.shapes or SHAPES:
        graphs = [SHAPES[name](n) for n in options.nodes]
        amounts = [float(calls(partial(fuse, f))) if options.counted else least(partial(fuse, f)) for f in graphs]
        shown = (f"{a:12,.0f}" if options.counted else f"{a * 1e3:9.0f} ms" for a in amounts)
        print(
            f"{name:12} " + " ".join(shown) + f"   {exponent([len(f.nodes) for f in graphs], amounts):8.2f}", flush=True
        )


if __name__ == "__main__":
    main()
