"""Computes a call at sizes that are numbers, by the interpreter of its equations.

In: a call, sizes of dims, for each input an expression that its elements are made by. Out: inputs and outputs as lists.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from anyshape.equations.interpret import interpret
from anyshape.errors import AnyshapeError, ArgumentError
from anyshape.graph.infer import equations_of, flat, tensors_of
from anyshape.graph.value import Node, Value
from anyshape_playground.called import CalledOp

LARGEST = 4096
"""The most elements of an input: the interpreter of equations takes a microsecond for each term of each element"""
FUNCTIONS = {
    name: getattr(math, name)
    for name in ("sin", "cos", "tan", "exp", "log", "sqrt", "floor", "ceil", "pi", "inf", "nan")
} | {"abs": abs, "min": min, "max": max, "round": round, "int": int, "float": float}


def compute(called: CalledOp, sizes: Mapping[str, int], fills: Mapping[str, str]) -> dict[str, Any]:
    """Raises the AnyshapeErrors that a run raises, and ArgumentError for an expression that cannot be evaluated."""
    names = [str(s) for s in called.function.symbols()]
    f = called.function.specialize(**{n: int(sizes[n]) for n in names}) if names else called.function
    known: dict[Value, Any] = {}
    for p in f.params:
        known[p] = filled(p, fills.get(p.name or "", "k"), sizes)
    for node in f.nodes:
        operands = [None if v is None else known[v] if v in known else np.asarray(v.constant) for v in node.inputs]
        known.update(zip(node.outputs, _results(node, operands), strict=True))
    results = [known[v] if v in known else np.asarray(v.constant) for v in f.results]
    return {
        "inputs": [_table(p.name or "", p, known[p]) for p in f.params],
        "outputs": [_table(n, v, a) for n, v, a in zip(f.result_names, f.results, results)],
    }


def filled(p: Value, fill: str, sizes: Mapping[str, int]) -> Any:
    """The array of an input: `fill` evaluated for k = 0, 1, 2 …, the positions in row-major order."""
    shape = tuple(int(str(n)) for n in p.type.shape or ())
    count = math.prod(shape)
    if count > LARGEST:
        raise ArgumentError(f"{p.name} has {count} elements; the page computes inputs of at most {LARGEST}")
    try:
        code = compile(fill.strip() or "k", "fill", "eval")
        scope = {**FUNCTIONS, **sizes, "__builtins__": {}}
        values = [
            eval(code, {**scope, "k": k}) for k in range(count)
        ]  # the page's own user wrote it, for this page alone
        return (
            np.asarray(values, np.float64 if p.type.dtype.is_float else None).reshape(shape).astype(p.type.dtype.numpy)
        )
    except AnyshapeError:
        raise
    except Exception as e:
        raise ArgumentError(f"the elements of {p.name} cannot be made by {fill!r}: {type(e).__name__}: {e}") from None


def _results(node: Node, operands: list[Any]) -> list[Any]:
    """The outputs of a node, those of a view by reshaping."""
    if node.op.view:
        names = [i.name for i in node.op.inputs]
        source = operands[names.index(next(iter(node.op.view.values())))]
        return [source.reshape([int(str(n)) for n in node.outputs[0].type.shape or ()])]
    ins, outs = tensors_of(node)
    eqs = equations_of(node, ins, outs)
    present = [t for t in flat(ins) if t.absent is None]
    arrays = dict(zip(present, [a for a in operands if a is not None], strict=True))
    results = interpret(eqs.equations, arrays)
    return [results[t] for t in flat(outs)]


def _table(name: str, v: Value, a: Any) -> dict[str, Any]:
    return {
        "name": name,
        "dtype": str(v.type.dtype),
        "shape": [*map(int, a.shape)],
        "data": [_element(x) for x in a.reshape(-1).tolist()],
    }


def _element(x: Any) -> Any:
    """An element for JSON, which has no infinities and integers of 53 bits."""
    if isinstance(x, bool):
        return x
    if isinstance(x, float) and math.isfinite(x):
        return x
    return x if isinstance(x, int) and abs(x) < 1 << 53 else str(x)
