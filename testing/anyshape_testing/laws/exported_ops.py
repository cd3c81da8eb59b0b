"""The law of exported ops: as a C function, an op gives what its reference gives, and refuses what Python refuses, in the same words.

In: an op. Out: its first example on symbols, exported for a processor like this one and called through ctypes; and its first example of an
error, refused when it is built, by the check of sizes, or by the call.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from zlib import crc32

import pytest

import anyshape
from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.graph.call import call
from anyshape.graph.function import Function
from anyshape.lower.llvm.jit import CodegenError
from anyshape.properties import Example
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import Export, export, export_target
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.examples import call_of
from anyshape_testing.calls.nodes import static_node
from anyshape_testing.calls.operands import ByName, Symbols, flat_values, input_arrays, typed
from anyshape_testing.calls.packages import PROPERTIES
from anyshape_testing.compare.results import same_as_reference
from anyshape_testing.execution.reference import run_reference
from anyshape_testing.exports.loaded import Exported
from anyshape_testing.process.profile import LONG

ONE_OF = 40
"""Number of ops of which one is exported where time is limited, by a hash of its name; all are in long runs."""
RUNS_HERE = platform.machine().lower() in ("x86_64", "amd64", "aarch64", "arm64")


@dataclass(frozen=True)
class Outcome:
    """What became of an op: `refused` says why it is not exported, else it is empty."""

    op: str
    refused: str = ""
    symbolic: bool = True


def is_sampled(op: str) -> bool:
    return LONG or crc32(op.encode()) % ONE_OF == 0


def exported_call(f: Function) -> Export:
    return export(f, "op", export_target(None), make_options({"dims": {}}))


def function_on_symbols(c: Call) -> Function:
    """A call with a symbol for each dim that its operands have. Raises an AnyshapeError where the rule refuses such."""
    inputs = ByName(flat_values(c.values(Symbols({}))))
    return Function([*inputs.params.values()], call(c.op, c.values(inputs), c.params))


def function_on_numbers(c: Call) -> Function:
    inputs = flat_values(c.values(typed))
    return Function(inputs, call(c.op, c.values(ByName(inputs)), c.params))


def first_example(op: str) -> Outcome:
    """Runs the first example that gives a result: on symbols, or on numbers where symbols are refused."""
    e = next(e for e in PROPERTIES[op].examples if e.error is None)
    c = call_of(op, e)
    refusals = []
    for make in (function_on_symbols, function_on_numbers):
        try:
            f = make(c)
            compiled = exported_call(f)
        except (UnsupportedError, CodegenError) as refusal:
            refusals.append(str(refusal).partition("\n")[0])
            continue
        arrays = input_arrays(c)
        node = static_node(c)
        results = Exported(compiled)(*[arrays[p.name] for p in f.params])
        same_as_reference(results, run_reference(c, node), c, node, "exported against reference")
        return Outcome(op, symbolic=make is function_on_symbols)
    return Outcome(op, refusals[-1])


def refuses_alike(op: str, e: Example) -> str:
    """Runs an example of an error in Python and exported; the message of both. Empty where the call cannot be built."""
    c = call_of(op, e)
    try:
        f = function_on_symbols(c)
        executable = anyshape.compile(f, threads=1)
        exported = Exported(exported_call(f))
    except AnyshapeError:
        return ""
    arrays = [input_arrays(c)[p.name] for p in f.params]
    said = []
    for run in (executable, exported):
        with pytest.raises(AnyshapeError) as raised:
            run(*arrays)
        said.append(str(raised.value))
    assert said[0] == said[1]
    return said[0]
