"""The text form of a function, made to be read, diffed and parsed back (`anyshape.graph.parse`).

    function main(%x: f32[n, 224], %s: i64[2]) {
      const %c0: i64[1] = [-1]
      %0: f32[?a, ?b] = dyn.reshape(%x, %s, allowzero=false)
      return %0
    }

Regions are functions within: what they read of their surroundings are their last parameters. Names of values begin anew in each,
names of dims are shared.

    %0: f32[?0] = if(%x, %c) {
      then(%x: f32[n]) {
        %0: f32[n] = exp(%x)
        return output0=%0
      }
      otherwise(%x: f32[n]) fails "why it cannot be taken"
    }

Functions that it calls follow, with what they were declared to give: `function f(%x: f32[n]) -> f32[m] {`.

Constants of more than 16 elements print as `= @name`, and are handed to `parse` beside the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Any

from anyshape.dims import Dim, Size, anonymous_names, bounds, free_symbols, symbol
from anyshape.dtypes import DType
from anyshape.graph.callee import callees_of
from anyshape.graph.function import Function
from anyshape.graph.value import Node, Value
from anyshape.types import TensorType

INLINE = 16


def print_function(f: Function) -> str:
    """The function, and behind it those that it calls, which say what they give."""
    with anonymous_names():  # there are none: `symbol_names` gives others
        called = [(c.function, f" -> {', '.join(map(str, c.type.results))}") for c in callees_of([f]) if c.function]
        return "\n\n".join(_function(g, gives) for g, gives in ((f, ""), *called))


def _function(f: Function, gives: str) -> str:
    names = value_names(f)
    shown = symbol_names(f, names)
    params = ", ".join(f"{names[p]}: {p.type.substitute(shown)}" for p in f.params)
    lines = [f"function {f.name}({params}){gives} {{"]
    for s in f.symbols():
        low, high = bounds(s)
        if low != 0 or high is not None:
            lines.append(f"  dim {shown.get(s, s)} in {'' if low is None else low}..{'' if high is None else high}")
    return "\n".join([*lines, *_body(f, names, shown, "  "), "}"])


def _body(f: Function, names: Mapping[Value, str], shown: Mapping[Dim, Size], indent: str) -> list[str]:
    lines = [f"{indent}const {names[c]}: {c.type} = {_literal(c, names[c])}" for c in f.constants]
    for node in f.nodes:
        lines.append(indent + print_node(node, names, shown))
        if node.regions:
            for region in node.regions:
                lines += _region(region, shown, indent + "  ")
            lines.append(indent + "}")
    lines.append(f"{indent}return {', '.join(f'{n}={names[v]}' for n, v in zip(f.result_names, f.results))}")
    return lines


def _region(f: Function, shown: Mapping[Dim, Size], indent: str) -> list[str]:
    names = value_names(f)
    params = ", ".join(f"{names[p]}: {p.type.substitute(shown)}" for p in f.params)
    head = f"{indent}{f.name}({params})"
    if f.failure:
        return [f"{head} fails {json.dumps(f.failure)}"]
    return [f"{head} {{", *_body(f, names, shown, indent + "  "), f"{indent}}}"]


def size_names(f: Function) -> dict[Dim, Dim]:
    """What the text of a function calls sizes that nobody named."""
    return symbol_names(f, value_names(f))


def spelled_type(t: TensorType, shown: Mapping[Dim, Size]) -> str:
    """A type in the words of a function's text."""
    with anonymous_names():
        return str(t.substitute(shown))


def symbol_names(f: Function, names: Mapping[Value, str]) -> dict[Dim, Dim]:
    """Unknowns under names that depend on the function alone: `s[0]` for an element of a parameter, `?0`, `?1` … for others, in order."""
    shown: dict[Dim, Dim] = {}
    dims = {s for p in f.params for s in p.type.symbols()}
    for v in f.params:
        for k, e in enumerate(v.contents or ()):
            if isinstance(e, Dim) and free_symbols(e) == {e} and is_anonymous(e) and e not in dims and e not in shown:
                shown[e] = symbol(f"{names[v][1:]}[{k}]", *bounds(e))
    count = 0
    for v in _all_values(f):
        for s in sorted(v.type.symbols() - shown.keys(), key=attrgetter("name")):
            if is_anonymous(s):
                shown[s] = symbol(f"?{count}", *bounds(s))
                count += 1
    return shown


def _all_values(f: Function) -> Iterator[Value]:
    yield from f.params
    for node in f.nodes:
        yield from node.outputs
        for region in node.regions:
            yield from _all_values(region)


def is_anonymous(s: Dim) -> bool:
    """Whether the symbol was made by `fresh`, so that its name depends on how many were made before."""
    name = s.name
    return name.startswith("?") or "." in name


def print_node(node: Node, names: Mapping[Value, str], shown: Mapping[Dim, Size]) -> str:
    outs = ", ".join(f"{names[v]}: {v.type.substitute(shown)}" for v in node.outputs)
    args = ["none" if v is None else names[v] for v in node.inputs]
    args += [f"{k}={spell_attribute(v)}" for k, v in node.attrs.items()]
    source = f"  # {node.source}" if node.source else ""
    opened = " {" if node.regions else ""
    return f"{outs} = {node.op.full_name}({', '.join(args)}){opened}{source}"


def value_names(f: Function) -> dict[Value, str]:
    """%name for parameters and named constants, %c0 … for other constants, %0 … for results of nodes; all different."""
    names: dict[Value, str] = {p: f"%{p.name}" for p in f.params}
    taken = set(names.values())
    for k, c in enumerate(f.constants):
        plain = f"%{c.name}" if c.name and f"%{c.name}" not in taken else f"%c{k}"
        names[c] = plain
        taken.add(plain)
    count = 0
    for node in f.nodes:
        for v in node.outputs:
            names[v] = f"%{count}"
            count += 1
    return names


def _literal(c: Value, name: str) -> str:
    assert c.constant is not None
    if c.constant.size > INLINE:
        return f"@{name[1:]}"
    return _spell(c.constant.tolist())


def _spell(v: Any) -> str:
    if isinstance(v, list):
        return f"[{', '.join(map(_spell, v))}]"
    return spell_attribute(v)


def spell_attribute(v: Any) -> str:
    if isinstance(v, bool):
        return "true" if v else "false"
    if isinstance(v, tuple):
        return f"[{', '.join(map(spell_attribute, v))}]"
    if isinstance(v, DType):
        return str(v)
    if isinstance(v, float):
        return "nan" if math.isnan(v) else "inf" if v == math.inf else "-inf" if v == -math.inf else repr(v)
    return f"'{_SPECIAL.sub(_escaped, v)}'" if isinstance(v, str) else repr(v)


_SPECIAL = re.compile(r"""['"\\#\x00-\x1f\x7f\ud800-\udfff\u2028\u2029\x85]""")
"""Characters that end a string, a call or a line of a text"""


def _escaped(m: re.Match[str]) -> str:
    return f"\\u{ord(m.group()):04x}"
