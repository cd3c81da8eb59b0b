"""`lower_group`: from a fused group of equations to a kernel.

In: a `Group` and a `Target`. Out: a `Kernel`. The steps are a list: inline, collapse, plan, mark what is kept, emit.
"""

from __future__ import annotations

import hashlib

from anyshape import dims
from anyshape.dtypes import DType
from anyshape.equations import Tensor
from anyshape.lower.collapse import collapse
from anyshape.lower.dag import Store, walk
from anyshape.lower.emit_rows import Rows
from anyshape.lower.inline import inline_group
from anyshape.lower.kernel import Group, Kernel
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.types import I32, const
from anyshape.lower.schedule import Scope, keep_shared_values, plan
from anyshape.lower.target import Target

_NAME = "anyshape_kernel"


def schedule_group(group: Group) -> tuple[list[Scope], list[list[Store]]]:
    """The schedule trees, in order, and the stores by stage."""
    inlined = inline_group(group)
    stages = collapse(inlined.dag, inlined.stages)
    scopes = plan(stages)
    for scope in scopes:
        keep_shared_values(scope)
    return scopes, stages


def lower_group(group: Group, target: Target) -> Kernel:
    inlined = inline_group(group)
    stages = collapse(inlined.dag, inlined.stages)
    scopes = plan(stages)
    for scope in scopes:
        keep_shared_values(scope)
    operands = {t: k for k, t in enumerate((*group.inputs, *group.outputs))}
    module = Module(target)
    with module.kernel(_NAME) as f:
        rows = Rows(f, operands)
        rows.element_bytes = _element_bytes(stages)
        for t in inlined.temporaries:
            rows.offsets[t] = _placed(rows, t)
        if len(stages) > 1:
            with rows.when(f.compare("eq", f.args[3], 0)):
                for scope in scopes:
                    rows.scope(scope)
        else:
            for scope in scopes:
                rows.top(scope)
        f.ret(const(I32, 0))
    text = module.text()
    symbol = "k" + hashlib.sha256(text.encode()).hexdigest()[:20]
    return Kernel(
        symbol,
        text.replace(_NAME, symbol),
        tuple(rows.scalars),
        group.inputs,
        group.outputs,
        rows.scratch,
        inlined.errors,
        ("rows",),
        tuple(module.imports),
    )


def _placed(rows: Rows, t: Tensor) -> dims.Size:
    elements: dims.Size = 1
    for n in t.shape:
        elements = elements * n
    return rows.offsets.pop(rows.reserve(t.dtype, elements))


def _element_bytes(stages: list[list[Store]]) -> int:
    """Lanes are those of 4-byte elements unless all that is computed is 8 bytes wide."""
    dtypes: set[DType] = set()
    for stage in stages:
        for s in stage:
            dtypes.add(s.access.tensor.dtype)
            dtypes |= {n.dtype for n in walk([s.value])}
    sizes = {d.itemsize for d in dtypes if d.kind != "bool"}
    return 8 if sizes == {8} else 4
