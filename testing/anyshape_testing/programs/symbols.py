"""Builds the graph of a program, to be compiled: dims of inputs are symbols, computed parameters make dyn variants, blocks are regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anyshape import control, ops
from anyshape.graph.call import as_value, call
from anyshape.graph.value import Value
from anyshape_testing.calls.call import variants
from anyshape_testing.programs.statements import Block, Call, If, Longer, Operand, Piece, Ref, Statement

Env = dict[Ref, Value]


def run(s: Statement, env: Env) -> None:
    """Builds a statement, and adds its results to `env`. Raises what building a graph raises."""
    if isinstance(s, Call):
        op = variants(s.op)[-1 if s.operands else 0]
        inputs = [None if i is None else [env[r] for r in i] if isinstance(i, tuple) else env[i] for i in s.inputs]
        params = {**s.params, **{o.name: _operand(o, env) for o in s.operands}}
        env.update(zip(s.outputs, call(op, inputs, params), strict=True))
    elif isinstance(s, If):
        cond = _longer(s.cond, env) if isinstance(s.cond, Longer) else env[s.cond]
        (env[s.output],) = control.if_(cond, _built(s.then, env), _built(s.other, env))
    else:
        results = control.loop(env[s.trip], _iteration(s.inside, s.body, s.stacked is not None, env), [env[s.initial]],
                               collects=int(s.stacked is not None))  # fmt: skip
        env[s.output] = results[0]
        if s.stacked is not None:
            env[s.stacked] = results[1]


def _block(b: Block, env: Env) -> Value:
    inner = dict(env)
    for s in b.statements:
        run(s, inner)
    return inner[b.result]


def _built(b: Block, env: Env) -> Callable[[], Value]:
    return lambda: _block(b, env)


def _iteration(inside: Ref, body: Block, stacked: bool, env: Env) -> Callable[..., Sequence[Value]]:
    def iteration(number: Value, carried: Value) -> Sequence[Value]:
        result = _block(body, {**env, inside: carried})
        return [result, result] if stacked else [result]

    return iteration


def _longer(c: Longer, env: Env) -> Any:
    return ops.greater(ops.gather(ops.shape_of(env[c.of]), c.axis), c.limit)


def _operand(o: Operand, env: Env) -> Value:
    if isinstance(o.source, int):
        return env[o.source]
    if o.scalar:
        return _scalar(o.source[0], env)
    if not o.source:
        return ops.concat([np.zeros(0, np.int64), np.zeros(0, np.int64)], axis=0)
    return ops.concat([_element(p, env) for p in o.source], axis=0)


def _element(p: Piece, env: Env) -> Any:
    """Makes a vector of one element."""
    if p.of is None:
        return np.array([p.number], np.int64)
    dim = ops.shape_of(env[p.of], start=p.axis, end=p.axis + 1)
    return ops.add(dim, p.number) if p.number else dim


def _scalar(p: Piece, env: Env) -> Value:
    if p.of is None:
        return as_value(np.asarray(p.number, np.int64))
    dim: Value = ops.gather(ops.shape_of(env[p.of]), p.axis)
    return ops.add(dim, p.number) if p.number else dim
