"""What symbolic shapes are read off: an ONNX model, a function of ours, or an exported program of PyTorch, as one optimised function.

In: any of these. Out: a `Subject`. Values have the names of the file, or those of torch's nodes; those of a function that nobody named are
called as its text calls them, `%3`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyshape.frontends.onnx.inputs import DimBinding
from anyshape.frontends.onnx.named_values import NamedValues, named_values, optimised
from anyshape.frontends.onnx.reader import Source
from anyshape.graph.function import Function
from anyshape.graph.retype import constrained
from anyshape.graph.text import value_names
from anyshape.graph.value import Value


@dataclass(frozen=True, kw_only=True)
class Subject:
    """`function` is optimised; `values` are its results and parameters by name, None where nothing is known of one. `model` has the bodies
    of an ONNX model, and its nodes."""

    name: str
    function: Function
    values: Mapping[str, Value | None]
    inputs: Collection[str]
    outputs: Sequence[str]
    model: NamedValues | None = None


def of_model(read: Source, dims: Mapping[str, DimBinding] | None) -> Subject:
    known = named_values(read, dims, as_compiled=True)
    return Subject(
        name=read.name,
        function=known.function,
        values=known.values,
        inputs={i.name for i in known.graph.input},
        outputs=[o.name for o in known.graph.output],
        model=known,
    )


def of_function(f: Function, dims: Mapping[str, DimBinding] | None) -> Subject:
    """Raises what `specialize` raises for dims."""
    f = constrained(f, dims) if dims else f
    texts = value_names(f)
    named = {texts[v]: v for node in f.nodes for v in node.outputs if v not in f.results}
    return _of_values(f, named | dict(zip(f.result_names, f.results)), f.result_names)


def of_program(program: Any, dims: Mapping[str, DimBinding] | None) -> Subject:
    """The subject of a `torch.export.ExportedProgram`. Raises UnsupportedError listing all operators without a mapping."""
    from anyshape.frontends.torch.program import decomposed, named_program

    whole, outputs = named_program(decomposed(program))
    whole = constrained(whole, dims) if dims else whole
    return _of_values(whole, dict(zip(whole.result_names, whole.results)), outputs)


def _of_values(f: Function, named: Mapping[str, Value], outputs: Sequence[str]) -> Subject:
    """The subject of some values of a function, and of its parameters."""
    listed = {**named, **{p.name: p for p in f.params}}
    best = optimised(Function(f.params, list(listed.values()), f.name, list(listed), checks=f.checks))
    values = dict(zip(listed, best.results, strict=True))
    return Subject(name=f.name, function=best, values=values, inputs=[p.name for p in f.params], outputs=[*outputs])
