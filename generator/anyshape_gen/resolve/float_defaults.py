"""Rewrites defaults of floats that are computed from sizes, `scale: {kind: float, default: "1 / sqrt(n)"}`.

A rule computes with integers, and a kernel with floats. So such a parameter may be absent, and the kernel reads its default
expression instead: `scale if scale is not None else 1 / sqrt(f64(n))`.

In: an op as it was read. Out: the op with these defaults in its kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar, cast

from anyshape_gen.model.build import call
from anyshape_gen.model.functions import CASTS
from anyshape_gen.model.nodes import (
    BinOp,
    Call,
    Compare,
    Expr,
    Float,
    IfExp,
    Int,
    Name,
    Node,
    NoneLit,
    Slice,
    Star,
    Unary,
)
from anyshape_gen.model.spec import OpSpec, ParamSpec
from anyshape_gen.model.traverse import free_names, rebuild, walk

N = TypeVar("N", bound=Node)
OF_FLOATS = ("sqrt", "exp", "log", "abs", *CASTS)


def with_computed_floats(spec: OpSpec) -> OpSpec:
    """Rewrites an op so that floats with a computed default are None by default, and its kernel computes the default."""
    floats = {p.name for p in spec.params if p.kind.base == "float"}
    values: dict[str, Expr] = {}
    for p in spec.params:
        if p.default is not None and _is_computed(p):
            shown = substituted(of_floats(p.default, floats), values)
            values[p.name] = IfExp(
                Compare(Name(p.name), (("is not", NoneLit()),)), Name(p.name), shown, span=p.default.span
            )
    if not values:
        return spec
    params = tuple(replace(p, default=NoneLit(), computed=p.default) if p.name in values else p for p in spec.params)
    return replace(
        spec,
        params=params,
        floats=tuple(values.items()),
        kernel=None if spec.kernel is None else substituted(spec.kernel, values),
        procedure=None if spec.procedure is None else substituted(spec.procedure, values),
        defines=tuple(
            replace(f, body=tuple(substituted(a, values) for a in f.body), result=substituted(f.result, values))
            for f in spec.defines
        ),
    )


def _is_computed(p: ParamSpec) -> bool:
    """Whether the default reads a name or calls a function; one of numbers and signs alone is a constant."""
    if p.kind.base != "float" or p.default is None or isinstance(p.default, NoneLit):
        return False
    return any(isinstance(e, Call) or (isinstance(e, Name) and e.id not in ("inf", "pi")) for e in walk(p.default))


def substituted(node: N, values: Mapping[str, Expr]) -> N:
    """Substitutes expressions for names in a node."""
    if isinstance(node, Name) and node.id in values:
        return cast(N, values[node.id])  # wherever a name may stand, any expression may
    return rebuild(node, lambda part: substituted(part, values)) if free_names(node) & values.keys() else node


def of_floats(e: Expr, floats: set[str]) -> Expr:
    """Casts the sizes in an expression to f64."""
    match e:
        case Int() | Float() | NoneLit():
            return e
        case Name(id) if id in floats:
            return e
        case BinOp() | Unary() | IfExp() | Compare():
            return rebuild(e, lambda part: of_floats(part, floats))
        case Call(func, args, ()) if func in OF_FLOATS:
            if func in CASTS:
                return e
            return replace(e, args=tuple(a if isinstance(a, (Star, Slice)) else of_floats(a, floats) for a in args))
    return call("f64", e)
