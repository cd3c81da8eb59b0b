"""Functions as plain data, which JSON can hold, and back: what a saved model is compiled from again.

In: a function. Out: a record of numbers, texts and lists, constants by numbers that the caller gives them. Values are numbered: parameters,
constants, then results of nodes. Reading infers every type anew from those of the parameters. The text form is for people; a file has
to keep any name a model may use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import SizeReader, SizeWriter
from anyshape.dtypes import DType, parse_dtype
from anyshape.errors import AnyshapeError, ParseError
from anyshape.graph.callee import Callee, callees_of
from anyshape.graph.function import Function
from anyshape.graph.infer import build
from anyshape.graph.registry import find_op
from anyshape.graph.tuples import Form
from anyshape.graph.value import Node, Value, constant
from anyshape.rules import Check
from anyshape.types import FunctionType, ListType, TensorType, function_type, list_of

Record = dict[str, Any]


def type_record(t: TensorType, size: SizeWriter) -> list[Any]:
    if isinstance(t, FunctionType):
        params, results = ([type_record(p, size) for p in side] for side in (t.params, t.results))
        return [{"params": params}, results]
    if isinstance(t, ListType):
        return [{"optional": t.optional, "never": t.never}, type_record(t.element, size)]
    return [str(t.dtype), None if t.shape is None else [size(n) for n in t.shape]]


def read_type(record: Sequence[Any], size: SizeReader) -> TensorType:
    dtype, shape = record
    if isinstance(dtype, dict) and "params" in dtype:
        return function_type([read_type(p, size) for p in dtype["params"]], [read_type(r, size) for r in shape])
    if isinstance(dtype, dict):
        return list_of(read_type(shape, size), dtype["optional"], dtype["never"])
    return TensorType(parse_dtype(dtype), None if shape is None else tuple(size(n) for n in shape))


def read_form(record: Any) -> Form:
    return tuple(map(read_form, record)) if isinstance(record, list | tuple) else None


def value_records(values: Sequence[Value], size: SizeWriter) -> list[Any]:
    """Name, type and what is known of the elements, which dims of other values may mention."""
    return [
        [v.name, *type_record(v.type, size), None if v.contents is None else [size(e) for e in v.contents]]
        for v in values
    ]


def read_values(records: Sequence[Any], size: SizeReader) -> list[Value]:
    return [
        Value(read_type((dtype, shape), size), name, contents=None if known is None else tuple(map(size, known)))
        for name, dtype, shape, known in records
    ]


def write_function(f: Function, number_of: Callable[[NDArray[Any]], int]) -> Record:
    """The record of a function. `number_of` keeps an array and returns the number by which `read_function` will ask for it."""
    size, callees = SizeWriter(), callees_of([f])
    called = [
        {
            "name": c.name,
            "params": [[n, type_record(t, size)] for n, t in zip(c.names, c.type.params)],
            "results": [type_record(t, size) for t in c.type.results],
            "function": _region_record(c.defined(), size, number_of, callees),
        }
        for c in callees
    ]
    return {**_region_record(f, size, number_of, callees), "callees": called, "sizes": size.table}


def _region_record(
    f: Function, size: SizeWriter, number_of: Callable[[NDArray[Any]], int], callees: Mapping[Callee, int]
) -> Record:
    numbers = {v: k for k, v in enumerate((*f.params, *f.constants))}
    nodes = []
    for node in f.nodes:
        regions = [_region_record(r, size, number_of, callees) for r in node.regions]
        nodes.append([*_node_record(node, numbers, callees), regions, node.count])
        for v in node.outputs:
            numbers[v] = len(numbers)
    return {
        "name": f.name,
        "params": value_records(f.params, size),
        "constants": [[c.name, number_of(c.constant)] for c in f.constants if c.constant is not None],
        "nodes": nodes,
        "results": [[name, numbers[v]] for name, v in zip(f.result_names, f.results, strict=True)],
        "checks": [[size(c.cond), _parts(c, size), c.op, c.where] for c in f.checks],
        "failure": f.failure,
        "form": f.form,
    }


def _node_record(node: Node, numbers: Mapping[Value, int], callees: Mapping[Callee, int]) -> list[Any]:
    inputs = [None if v is None else numbers[v] for v in node.inputs]
    attrs = {name: _spelled(value, callees) for name, value in node.attrs.items()}
    return [node.op.full_name, inputs, attrs, node.source]


def _parts(c: Check, size: SizeWriter) -> list[Any]:
    return [p if isinstance(p, str) else size(p) for p in c.parts]


def _spelled(value: Any, callees: Mapping[Callee, int]) -> Any:
    if isinstance(value, Callee):
        return {"callee": callees[value]}
    if isinstance(value, DType):
        return {"dtype": value.name}
    return [_spelled(v, callees) for v in value] if isinstance(value, tuple | list) else value


def _read(value: Any, callees: Sequence[Callee]) -> Any:
    if isinstance(value, dict):
        return callees[value["callee"]] if "callee" in value else parse_dtype(value["dtype"])
    return tuple(_read(v, callees) for v in value) if isinstance(value, list) else value


def read_function(record: Record, array: Callable[[int], NDArray[Any]]) -> Function:
    """The function of a record. Raises ParseError for a damaged record, and what inference raises."""
    try:
        size = SizeReader(record["sizes"])
        callees = [_callee(c, size) for c in record["callees"]]
        for callee, c in zip(callees, record["callees"]):
            callee.function = _function(c["function"], size, array, callees)
        return _function(record, size, array, callees)
    except AnyshapeError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as e:
        raise ParseError(f"the record of a function is damaged: {e!r}") from e


def _callee(record: Record, size: SizeReader) -> Callee:
    params = {name: read_type(t, size) for name, t in record["params"]}
    return Callee(record["name"], params, [read_type(t, size) for t in record["results"]])


def _function(
    record: Record, size: SizeReader, array: Callable[[int], NDArray[Any]], callees: Sequence[Callee]
) -> Function:
    params = read_values(record["params"], size)
    values = [*params, *(constant(array(number), name) for name, number in record["constants"])]
    for op, inputs, attrs, source, inner, count in record["nodes"]:
        operands = [None if k is None else values[k] for k in inputs]
        regions = tuple(_function(r, size, array, callees) for r in inner)
        said = {n: _read(v, callees) for n, v in attrs.items()}
        values += build(find_op(op), operands, said, source, regions=regions, count=count).outputs
    checks = [Check(size(c), tuple(map(size, parts)), op, where) for c, parts, op, where in record["checks"]]
    results = [values[k] for _, k in record["results"]]
    return Function(
        params,
        results,
        record["name"],
        [n for n, _ in record["results"]],
        checks=checks,
        failure=record["failure"],
        form=read_form(record["form"]),
    )
