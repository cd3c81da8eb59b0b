"""Plans a call as an export for WebAssembly does, as far as there is no LLVM: kernels and their loops, memory, the program, LLVM's text.

In: a call, sizes at which bytes are also said in numbers. Out: texts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from anyshape.errors import AnyshapeError
from anyshape.lower import Group, describe, lower_group
from anyshape.passes.fuse import fuse
from anyshape.passes.pipeline import optimise
from anyshape.passes.steps import KernelStep
from anyshape.vm.compiling.options import Options
from anyshape.vm.export import ArenaFormulas, arena_of, bytes_at, export_target
from anyshape.vm.export.exporting import compiled_programs
from anyshape.vm.program.disassemble import disassemble
from anyshape_playground.called import CalledOp

TARGET = "wasm32"


def plan(called: CalledOp, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Each part is a text, or says why there is none."""
    kernels, formulas, program = _planned(called)
    memory = {"value": _memory(formulas["value"], sizes)} if "value" in formulas else formulas
    return {"kernels": kernels, "memory": memory, "program": program}


@lru_cache(maxsize=1)
def _planned(called: CalledOp) -> tuple[dict[str, Any], ...]:
    """What sizes do not change."""
    target, options = export_target(TARGET), Options()
    return (
        _part(lambda: [*_kernels(called)]),
        _part(lambda: arena_of(called.function, target, options)),
        _part(lambda: disassemble(next(iter(compiled_programs(called.function, target, options))))),
    )


def _part(make: Callable[[], Any]) -> dict[str, Any]:
    try:
        return {"value": make()}
    except AnyshapeError as e:
        return {"error": str(e)}


def _kernels(called: CalledOp) -> Iterator[dict[str, str]]:
    for step in fuse(optimise(called.function)).steps:
        if isinstance(step, KernelStep):
            border = step.tensors
            inputs, outputs = (tuple(border[v] for v in values) for values in (step.inputs, step.outputs))
            group = Group(called.op.op.name, step.equations, inputs, outputs=outputs)
            kernel = lower_group(group, export_target(TARGET).processor)
            yield {"schedule": ", ".join(kernel.schedule), "loops": describe(group).rstrip(), "llvm": kernel.text}


def _memory(formulas: ArenaFormulas, sizes: Mapping[str, int]) -> dict[str, Any]:
    dims = formulas.interface.dims
    at = {d.c_name: int(sizes[d.label]) for d in dims if d.label in sizes}
    size = formulas.sizes[-1] if 0 in at.values() else formulas.sizes[0]
    return {
        "lines": [*formulas.lines(), *(["a run may need more, by what elements decide"] if formulas.grows else [])],
        "bytes": bytes_at(size, at) if len(at) == len(dims) else None,
    }
