"""Code of calls, and of the functions that are called.

In: the code generator at a call; or the schedule of a function. Out: instructions; a program that is a function. Arguments are passed
where they are. What a function gives lies in regions of its own, which its next call uses again, so the caller copies it; a list goes
over with the hold on it, in both directions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from anyshape.dims import Dim
from anyshape.graph.callee import CALL, REF, Callee, referenced
from anyshape.graph.value import Node, Value
from anyshape.passes.steps import Schedule
from anyshape.types import TensorType
from anyshape.vm.codegen import Codegen, aligned, byte_count
from anyshape.vm.kernels import KernelMaker
from anyshape.vm.list_code import I64, Emitter, is_list
from anyshape.vm.program import Op, Program


def generate_function(schedule: Schedule, kernels: KernelMaker, functions: Mapping[Callee, int], name: str) -> Program:
    """The program of a function that is called. Raises what `generate` raises."""
    return replace(FunctionCode(schedule, kernels, (), functions=functions).run(), name=name)


def words_of(t: TensorType) -> int:
    """How many words a value is when it is passed or given."""
    return 1 + (t.rank or 0)


@dataclass(eq=False)
class FunctionCode(Codegen):
    """The code of a function."""

    def run(self) -> Program:
        self.begin()
        self.entry()
        self.body(None, len(self.f.results))
        self.results()
        self.code.emit(Op.RETURN)
        types = [v.type for v in self.f.results]
        passes = tuple(-1 if is_list(p) else p.type.rank or 0 for p in self.f.params)
        return replace(self.program(()), passes=passes, returns=sum(map(words_of, types)))

    def list_argument(self, k: int, p: Value) -> int:
        """It comes as a handle, with a hold on it."""
        return self.code.pure(Op.ARGUMENT, k)

    def output(self, k: int, v: Value) -> int:
        self.check_sizes(v)
        return self.code.new(Op.EXTEND, k, self.code.register(aligned(byte_count(v.type))))

    def results(self) -> None:
        starts = accumulate((words_of(v.type) for v in self.f.results), initial=0)
        for k, (v, start) in enumerate(zip(self.f.results, starts)):
            self.code.emit(Op.GIVE, start, (self.given(k, v), *(self.code.register(n) for n in v.type.shape or ())))
        self.holds.after(len(self.schedule.steps))
        self.refuse_pending()

    def given(self, k: int, v: Value) -> int:
        """Where a result is, in a region of this function."""
        if is_list(v):
            return self.holds.take(v, len(self.schedule.steps))
        storage = self.storages.get(self.need.origin(v))
        if storage is not None and storage.result == k:
            return self.address(v)
        to = self.output(k, v)
        self.code.emit(Op.COPY, to, self.address(v), self.code.register(byte_count(v.type)))
        return to


def _reference(g: Codegen, at: int, node: Node) -> None:
    (made,) = node.outputs
    number = g.code.register(g.functions[node.attrs["callee"]])
    g.code.emit(Op.STORE, g.allocate(made), 0, number, I64)


def _call(g: Codegen, at: int, node: Node) -> None:
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
    born: dict[Dim, tuple[int, int]] = node.bound.born
    for s, (result, axis) in born.items():
        code.define(s, code.new(Op.TAKEN, starts[result] + 1 + axis))
    _take(g, at, node.outputs, starts)


def _take(g: Codegen, at: int, results: Sequence[Value], starts: Sequence[int]) -> None:
    """Results into memory of the caller; a list that nobody wants is released."""
    code, wanted = g.code, set(g.need.outputs[at])
    for v, start in zip(results, starts):
        if is_list(v):
            handle = code.new(Op.TAKEN, start)
            if v in wanted:
                g.storages[v].address = handle
                g.holds.own(v)
            else:
                code.emit(Op.RELEASE, handle)
        elif v in wanted:
            g.check_sizes(v)
            source = code.new(Op.TAKEN, start)
            code.emit(Op.COPY, g.allocate(v), source, code.register(byte_count(v.type)))


CALL_EMITTERS: dict[object, Emitter] = {REF: _reference, CALL: _call}
