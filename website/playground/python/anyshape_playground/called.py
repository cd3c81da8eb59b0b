"""Infers a call of an op on inputs with named dims: types of its outputs, what is left to be checked, equations.

In: types and parameters as text. Out: the graph of the call, and words about it.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anyshape.dims import bounds
from anyshape.equations.builder import Equation, Run
from anyshape.equations.text import spell, steps_text
from anyshape.errors import ArgumentError
from anyshape.graph.building import input as named_input
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.graph.infer import equations_of, tensors_of
from anyshape.graph.value import Node, Value
from anyshape_playground.edited import EditedOp


@dataclass(frozen=True, eq=False)
class CalledOp:
    """One call; `function` has an input for each operand."""

    op: EditedOp
    function: Function

    @classmethod
    def of(cls, edited: EditedOp, types: Mapping[str, str], params: Mapping[str, str]) -> CalledOp:
        """Infers the call. Raises AnyshapeErrors of inference, and ArgumentError for a missing type."""
        op = edited.op
        inputs: list[Value] = []
        operands: list[Any] = []
        for i in op.inputs:
            texts = [t.strip() for t in types.get(i.name, "").split(";") if t.strip()]
            if not texts and not i.optional:
                raise ArgumentError(f"say the type of the input {i.name}, as f32[n, 8]")
            if len(texts) > 1 and not i.variadic:
                raise ArgumentError(f"{i.name} is one tensor, and has one type; got {types[i.name]!r}")
            names = [f"{i.name}.{k}" for k in range(len(texts))] if i.variadic else [i.name] * len(texts)
            values = [named_input(name, text) for name, text in zip(names, texts)]
            inputs += values
            operands.append(values if i.variadic else values[0] if values else None)
        arguments = {name: literal(text) for name, text in params.items() if text.strip()}
        results = call(op, operands, arguments)
        names = [o.name for o in op.outputs]
        return cls(edited, Function(inputs, results, op.name, names if len(names) == len(results) else None))

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.function.nodes

    def description(self) -> dict[str, Any]:
        f = self.function
        symbols = [(str(s), *bounds(s)) for s in f.symbols()]
        return {
            "inputs": [{"name": p.name, "type": str(p.type)} for p in f.params],
            "outputs": [{"name": n, "type": str(v.type)} for n, v in zip(f.result_names, f.results)],
            "checks": [str(c) for c in dict.fromkeys((*f.checks, *(c for node in self.nodes for c in node.checks)))],
            "dims": [{"name": name, "low": low, "high": high} for name, low, high in symbols],
            "equations": [e for node in self.nodes for e in _equations(node)],
        }


def literal(text: str) -> Any:
    """A parameter as text: a number, a list, a name such as f32, with quotes or without."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError):
        return text.strip()


def _equations(node: Node) -> list[dict[str, Any]]:
    """The equations of a node as text, each with the line of the spec that states it; none of a view and of what a later node decides."""
    if node.op.kernel is None or node.bound is None:
        return []
    ins, outs = tensors_of(node)
    return [{"text": _text(q), "line": _line(q.source)} for q in equations_of(node, ins, outs).equations]


def _text(q: Equation) -> str:
    if isinstance(q.form, Run):
        return steps_text(q.form.program.actions)
    index = f"[{', '.join(map(spell, q.index))}]" if q.index else ""
    over = "".join(f" for {v.name} in {v.extent}" for v in q.over)
    where = f" if {spell(q.where)}" if q.where is not None else ""
    form = f"   # {type(q.form).__name__.lower()}" if q.form is not None else ""
    return f"{q.target.name}{index}: {q.target.dtype} = {spell(q.value)}{over}{where}{form}"


def _line(source: str) -> int | None:
    line = source.partition(":")[2].partition(":")[0]
    return int(line) if line.isdigit() else None
