"""The law of custom ops: as a node of onnxruntime, an op gives what its reference gives, and refuses what Python refuses, in its words.

In: ops. Out: a library of a kernel for an example of each, and sessions of one node, with the attributes, dtypes and ranks of the example.
"""

from __future__ import annotations

import importlib.util
import platform
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.custom_ops import Library, OpCall, library_of, refusal
from anyshape.custom_ops.c_interface import ELEMENT_TYPES
from anyshape.custom_ops.c_tables import OpKernel, name_of
from anyshape.custom_ops.calls import demand_comparable
from anyshape.dtypes import DType, from_numpy
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.properties import Example
from anyshape.vm.compiling.refusals import undetermined
from anyshape.vm.export import export_target
from anyshape.vm.export.interface import interface
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.nodes import static_node
from anyshape_testing.calls.packages import PROPERTIES
from anyshape_testing.compare.results import same_as_reference
from anyshape_testing.execution.reference import run_reference

Array = NDArray[Any]


def missing() -> str:
    """What is missing here for custom ops; empty if nothing is."""
    if importlib.util.find_spec("onnxruntime") is None:
        return "onnxruntime is not installed"
    if platform.machine().lower() not in ("x86_64", "amd64", "aarch64", "arm64"):
        return "there is no target for processors like this one"
    if shutil.which("cc") is None and importlib.util.find_spec("ziglang") is None:
        return "nothing links a shared library here: neither a C compiler nor the package ziglang is installed"
    return ""


@dataclass(frozen=True)
class Case:
    """An example of an op, as a call of a kernel and as arrays by the names of its inputs."""

    name: str
    call: Call
    kernel: OpCall
    arrays: dict[str, Array]


def case_of(op: str, e: Example) -> Case | str:
    """The case of an example: with a symbol for each dim, or with numbers where the rule refuses these. A text says why there is none."""
    c = call_of(op, e)
    if (why := refusal(c.op)) is not None:
        return why
    arrays = dict(_arrays(c))
    dtypes = {n: dtype_of(a) for n, a in arrays.items()}
    if strange := [t for t in dtypes.values() if t not in ELEMENT_TYPES]:
        return f"onnxruntime has no tensors of {strange[0]} that lie in whole bytes"
    params = {n: v for n, v in c.params.items() if v is not None}
    said = ""
    for is_symbolic in (True, False):
        types = {n: f"{dtypes[n]}[{', '.join(_dims(n, a, is_symbolic))}]" for n, a in arrays.items()}
        kernel = OpCall(c.op, types, params)
        try:
            demand_comparable(kernel)
            interface(kernel.function, "op")
            if undetermined(kernel.function):
                raise UnsupportedError(f"{op}: a rank is known at run time only")
        except AnyshapeError as refused:
            said = str(refused).partition("\n")[0]
        else:
            return Case(op, c, kernel, arrays)
    return said


def first_case(op: str) -> Case | str:
    """The case of the first example with a result that can be one; else why the last one cannot."""
    refused = ""
    for e in examples(op, errors=False):
        case = case_of(op, e)
        if isinstance(case, Case):
            return case
        refused = case
    return refused


def dtype_of(a: Array) -> DType:
    return from_numpy(a.dtype)


def _arrays(c: Call) -> Iterator[tuple[str, Array]]:
    for i in c.op.inputs:
        value = c.inputs[i.name]
        if isinstance(value, list):
            yield from ((f"{i.name}.{k}", np.asarray(a)) for k, a in enumerate(value))
        elif value is not None:
            yield i.name, np.asarray(value)


def _dims(name: str, a: Array, is_symbolic: bool) -> list[str]:
    return [f"{name.replace('.', '_')}_{k}" if is_symbolic else str(n) for k, n in enumerate(a.shape)]


def examples(op: str, errors: bool) -> list[Example]:
    return [e for e in PROPERTIES[op].examples if (e.error is not None) == errors]


def library_for(cases: list[Case], name: str = "law") -> Library:
    return library_of([c.kernel for c in cases], name, export_target(None))


def attributes(case: Case) -> dict[str, Any]:
    """The attributes of the node. A number that is whole may be written as an integer, and a truth is one."""
    kinds = {p.name: p.kind for p in case.call.op.attributes}
    values: dict[str, Any] = {}
    for n, v in case.kernel.params.items():
        if kinds[n] in ("float", "floats", "number"):
            values[n] = [float(x) for x in v] if kinds[n] == "floats" else float(v)
        elif kinds[n] in ("ints", "axes", "strs"):
            values[n] = [*v]
        else:
            values[n] = str(v) if isinstance(v, str) else int(v)
    return values


def model(case: Case, kernel: OpKernel, domain: str, shapes: str = "numbers") -> bytes:
    """A model of one node. `shapes`: those of its inputs are `numbers`, `names` or `unknown`."""
    from onnx import helper

    inputs = [
        helper.make_tensor_value_info(
            n,
            ELEMENT_TYPES[dtype_of(a)],
            {"numbers": a.shape, "names": _dims(n, a, True), "unknown": None}[shapes],
        )
        for n, a in case.arrays.items()
    ]
    outputs = [
        helper.make_tensor_value_info(f"result{k}", ELEMENT_TYPES[t.dtype], None)
        for k, t in enumerate(kernel.interface.outputs)
    ]
    operands = [n if n in case.arrays else "" for n in _names(case)]
    node = helper.make_node(name_of(case.call.op), operands, [o.name for o in outputs], domain=domain)
    node.attribute.extend(_attribute(case, n, v) for n, v in attributes(case).items())
    graph = helper.make_graph([node], "g", inputs, outputs)
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(domain, 1)]
    content: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString()
    return content


def _attribute(case: Case, name: str, value: Any) -> Any:
    from onnx import AttributeProto, helper

    kind = next(p.kind for p in case.call.op.attributes if p.name == name)
    types = {"ints": AttributeProto.INTS, "axes": AttributeProto.INTS, "floats": AttributeProto.FLOATS}
    return helper.make_attribute(name, value, attr_type=types.get(kind))


def _names(case: Case) -> list[str]:
    """The names of the node's operands, absent ones among others too; those at the end are left out."""
    names = []
    for i in case.call.op.inputs:
        names += [n for n in case.arrays if n == i.name or n.rpartition(".")[0] == i.name] or [i.name]
    while names and names[-1] not in case.arrays:
        names.pop()
    return names


def session(path: Path, content: bytes, **options: Any) -> Any:
    """A session of a model with the custom ops of a library."""
    import onnxruntime

    chosen = onnxruntime.SessionOptions()
    chosen.log_severity_level = 4
    for name, value in options.items():
        setattr(chosen, name, value)
    chosen.register_custom_ops_library(str(path))
    return onnxruntime.InferenceSession(content, chosen, providers=["CPUExecutionProvider"])


def gives_what_the_reference_gives(case: Case, kernel: OpKernel, path: Path) -> None:
    """Runs the node of a case, and compares results and the shapes that were inferred."""
    loaded = session(path, model(case, kernel, "anyshape"))
    results = loaded.run(None, case.arrays)
    node = static_node(case.call)
    same_as_reference(results, run_reference(case.call, node), case.call, node, "onnxruntime against reference")
    for said, result in zip(loaded.get_outputs(), results, strict=True):
        if said.shape:  # an unknown shape is an empty one here
            wrong = [n for n, m in zip(said.shape, result.shape, strict=True) if n != m and not isinstance(n, str)]
            assert not wrong, (said.shape, result.shape)


def refuses_in_the_same_words(case: Case, kernel: OpKernel, path: Path, words: str) -> None:
    """Runs the node of a case that Python refuses."""
    loaded = session(path, model(case, kernel, "anyshape", "names"))
    try:
        loaded.run(None, case.arrays)
    except Exception as e:
        assert words[:400] in str(e), (words, str(e))
    else:
        raise AssertionError(f"{case.name} is not refused: {words}")
