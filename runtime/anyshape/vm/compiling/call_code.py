"""Code of calls.

In: the code generator at a call. Out: its instructions. Arguments are passed where they are. Results of a function lie in its own regions,
so they are copied; a list is passed with the hold on it, in both directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from anyshape.dims import Dim
from anyshape.graph.callee import CALL, REF, referenced
from anyshape.graph.value import Node, Value
from anyshape.types import TensorType
from anyshape.vm.compiling.emission import Emission, Emitter, byte_count
from anyshape.vm.compiling.list_code import I64, is_list
from anyshape.vm.program.table import Op


def words_of(t: TensorType) -> int:
    """Number of words that a value takes as an argument or a result."""
    return 1 + (t.rank or 0)


def _reference(g: Emission, at: int, node: Node) -> None:
    (output,) = node.outputs
    number = g.code.register(g.functions[node.attrs["callee"]])
    g.code.emit(Op.STORE, g.allocate(output), 0, number, I64)


def _call(g: Emission, at: int, node: Node) -> None:
    code, function = g.code, node.inputs[-1]
    assert function is not None
    known = referenced(function)
    number = code.register(g.functions[known]) if known is not None else code.new(Op.LOAD, g.address(function), 0, I64)
    words: list[int] = []
    for v in (v for v in node.inputs[:-1] if v is not None):
        words.append(g.holds.take(v, at) if is_list(v) else g.address(v))
        words += [code.register(n) for n in v.type.shape or ()]
    code.emit(Op.CALL, number, tuple(words))
    starts = list(accumulate((words_of(v.type) for v in node.outputs), initial=0))
    unbacked: dict[Dim, tuple[int, int]] = node.bound.unbacked
    for s, (result, axis) in unbacked.items():
        code.define(s, code.new(Op.TAKEN, starts[result] + 1 + axis))
    _take(g, at, node.outputs, starts)


def _take(g: Emission, at: int, results: Sequence[Value], starts: Sequence[int]) -> None:
    """Copies results into memory of the caller; a list that no step reads is released."""
    code, needed = g.code, set(g.liveness.outputs[at])
    for v, start in zip(results, starts):
        if is_list(v):
            handle = code.new(Op.TAKEN, start)
            if v in needed:
                g.storages[v].address = handle
                g.holds.own(v)
            else:
                code.emit(Op.RELEASE, handle)
        elif v in needed:
            g.check_sizes(v)
            source = code.new(Op.TAKEN, start)
            code.emit(Op.COPY, g.allocate(v), source, code.register(byte_count(v.type)))


CALL_EMITTERS: dict[object, Emitter] = {REF: _reference, CALL: _call}
