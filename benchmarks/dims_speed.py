"""Nanoseconds per operation on dims, and the dims' share of inferring a BERT. Run: python -m benchmarks.dims_speed

Each figure is the least of several batches. "new" operations get symbols they have not met, so that no cache answers;
the others repeat, as inference does.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from anyshape import dims, rules
from anyshape.dims import Facts, Size, fresh, symbol
from anyshape.rules import Rule, Vec
from tests.rules.reshape_rule import reshape


def repeated(f: Callable[[], Any], batch: int = 2000, batches: int = 7) -> float:
    """Nanoseconds of one call."""
    best = float("inf")
    for _ in range(batches):
        start = time.perf_counter()
        for _ in range(batch):
            f()
        best = min(best, time.perf_counter() - start)
    return best / batch * 1e9


def on_new(f: Callable[..., Any], arity: int, batch: int = 300, batches: int = 5) -> float:
    """Nanoseconds of one call on symbols that were never used."""
    best = float("inf")
    for _ in range(batches):
        symbols = [[fresh("q", 1) for _ in range(arity)] for _ in range(batch)]
        start = time.perf_counter()
        for values in symbols:
            f(*values)
        best = min(best, time.perf_counter() - start)
    return best / batch * 1e9


def operations() -> None:
    n, m, b = symbol("n"), symbol("m"), symbol("b", 1)
    whole = n * b * 64
    for name, f, g, arity in (
        ("a + 1", lambda: n + 1, lambda x: x + 1, 1),
        ("a + b", lambda: n + m, lambda x, y: x + y, 2),
        ("a * b", lambda: n * m, lambda x, y: x * y, 2),
        ("a*b*64 // (b*8)", lambda: whole // (b * 8), lambda x, y: (x * y * 64) // (y * 8), 2),
        ("a // 2", lambda: n // 2, lambda x: x // 2, 1),
        ("a % b", lambda: n % b, lambda x, y: x % y, 2),
        ("min(a, b)", lambda: dims.minimum(n, m), dims.minimum, 2),
        ("a == b", lambda: dims.eq(n, m), dims.eq, 2),
        ("a*b >= a", lambda: dims.ge(n * b, n), lambda x, y: dims.ge(x * y, x), 2),
        (
            "select(a == 0, b, a)",
            lambda: dims.select(dims.eq(n, 0), m, n),
            lambda x, y: dims.select(dims.eq(x, 2), y, x),
            2,
        ),
        ("bcast(a, b)", lambda: dims.bcast(n, m), dims.bcast, 2),
    ):
        print(f"{name:24} {repeated(f):8.0f} ns  new {on_new(g, arity):8.0f} ns")
    values = {n: 3, b: 4}
    print(f"{'evaluate(a*b*64)':24} {repeated(lambda: dims.evaluate(whole, values)):8.0f} ns")
    print(f"{'substitute(a*b*64)':24} {repeated(lambda: dims.substitute(whole, {n: m})):8.0f} ns")
    print(f"{'str(a*b*64)':24} {repeated(lambda: str(whole)):8.0f} ns")


def whole_rules() -> None:
    b, s = symbol("b", 1), symbol("s", 1)
    for name, d, newshape in (
        ("reshape on integers", (2, 128, 768), (2, 128, 12, 64)),
        ("reshape on dims", (b, s, 768), (b, s, 12, 64)),
        ("reshape, [b*s, 768]", (b, s, 768), (b * s, 768)),
        ("reshape, [0, 0, -1]", (b, s, 12, 64), (0, 0, -1)),
    ):
        x, target = Vec(d), Vec(newshape)
        print(f"{name:24} {repeated(lambda x=x, w=target: reshape(Rule('reshape'), x, w), 200) / 1e3:8.1f} us")
    p, q = Vec((b, s, 768)), Vec((768,))
    print(f"{'broadcast on dims':24} {repeated(lambda: Rule('add').broadcast(p, q), 500) / 1e3:8.1f} us")


def bert(layers: int, batch: Size, length: Size) -> int:
    """The shape work of an exported BERT, op by op with shared facts; the number of ops."""
    facts, ops = Facts(), 0

    def rule(op: str) -> Rule:
        nonlocal ops
        ops += 1
        return Rule(op, "", facts)

    def add(p: Vec, q: Vec) -> Vec:
        r = rule("add")
        return Vec(r.bind({"y": r.broadcast(p, q)}).outputs["y"])

    def matmul(p: Vec, q: Vec) -> Vec:
        r = rule("matmul")
        r.equal(p[-1], q[-2], "k")
        return Vec(r.bind({"y": Vec((*r.broadcast(p[:-2], q[:-2]), p[-2], q[-1]))}).outputs["y"])

    def view(x: Vec, newshape: tuple[Size, ...]) -> Vec:
        return Vec(reshape(rule("reshape"), x, Vec(newshape)).outputs["y"])

    def transpose(x: Vec, perm: tuple[int, ...]) -> Vec:
        r = rule("transpose")
        r.require(rules.eq(rules.sorted_(perm), rules.range_(len(x))), lambda: "perm")
        return Vec(r.bind({"y": x[perm]}).outputs["y"])

    def dense(x: Vec, n: int) -> Vec:
        return add(matmul(x, Vec((x[-1], n))), Vec((n,)))

    def norm(x: Vec) -> Vec:
        for _ in range(9):  # as exported: mean, sub, pow, mean, add, sqrt, div, mul, add
            x = add(x, Vec((768,)))
        return x

    x = add(Vec((batch, length, 768)), Vec((1, length, 768)))
    for _ in range(layers):
        heads = [transpose(view(dense(x, 768), (x[0], x[1], 12, 64)), (0, 2, 1, 3)) for _ in range(3)]
        scores = add(matmul(heads[0], transpose(heads[1], (0, 1, 3, 2))), Vec((batch, 1, 1, length)))
        mixed = transpose(matmul(scores, heads[2]), (0, 2, 1, 3))
        x = norm(add(x, dense(view(mixed, (x[0], x[1], -1)), 768)))
        inner = dense(x, 3072)
        for _ in range(5):
            inner = add(inner, Vec(()))
        x = norm(add(x, dense(inner, 768)))
    assert x == Vec((batch, length, 768))
    return ops


def main() -> None:
    operations()
    whole_rules()
    for low in (1, 0):
        start = time.perf_counter()
        ops = bert(12, fresh("batch", low), fresh("length", low))
        print(f"BERT, 12 layers, {ops} ops, dims >= {low}: {(time.perf_counter() - start) * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
