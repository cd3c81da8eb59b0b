"""Law 11: a kernel can be compiled for other processors, and calls no function of a library that is missing at run time.

In: an op's calls. Out: an object file for NEON, for RISC-V's vectors and for x86-64 without AVX, and the undefined symbols of each. Where a
processor lacks an instruction, LLVM may call a function of its runtime library, whose names begin with two underscores: JIT-compiled code
is not linked with that library.
"""

from __future__ import annotations

from typing import Any

from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.graph.call import call_node
from anyshape.lower import Group, Lowering
from anyshape.lower.llvm.jit import compile_object
from anyshape.lower.target import Target, processor
from anyshape.vm.export.object_symbols import undefined
from anyshape_testing.calls.call import Call
from anyshape_testing.calls.nodes import equations
from anyshape_testing.calls.operands import Symbols
from anyshape_testing.draw.validity import valid_node
from anyshape_testing.execution.native import program_key
from anyshape_testing.process.profile import LEAST, LONG
from anyshape_testing.running.random_calls import on_random_calls

NEON = processor("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon")
RVV = processor("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c,+v,+zvl128b")
SSE = processor("x86_64-unknown-linux-gnu", "x86-64-v2", "+sse4.2")
TARGETS = {"NEON": NEON, "RISC-V": RVV, "SSE 4.2": SSE}


def code_for(c: Call, target: Target) -> bytes | None:
    """Compiles the call's kernel on symbols to an object file; None for a view, and for equations that become several kernels."""
    try:
        node = call_node(c.op, c.values(Symbols({})), c.params)
    except AnyshapeError:  # refused on symbols, as law 3 says
        return None
    if node.op.kernel is None or node.bound is None:
        return None
    eqs, ins, outs = equations(node)
    inputs = tuple(t for t in ins if t.absent is None)
    try:
        kernel = Lowering(target).lower(
            Group(node.op.name, tuple(eqs.equations), inputs, outputs=tuple(outs), constants={})
        )
    except UnsupportedError:
        return None
    return compile_object(kernel.text, target)


def test_code_for_other_processors(kernel_op: str, record_property: Any) -> None:
    """Compiles one call, and one with 16-bit floats, which x86-64 without F16C does not have: a kernel depends on little but dtypes and
    ranks. In long runs, a quarter of the calls are compiled, each program once."""
    seen: set[bool] = set()
    known: dict[object, bool] = {}

    def body(c: Call) -> bool:
        valid_node(c)
        key = program_key(c, static=True)
        if key not in known:
            known[key] = compiled_for_others(c)
        return known[key]

    def compiled_for_others(c: Call) -> bool:
        half = any(d.is_float and d.bits == 16 for d in c.dtypes.values())
        if half in seen and not LONG:
            return False
        targets = TARGETS if LONG else {"SSE 4.2": SSE} if half else {"NEON": NEON, "RISC-V": RVV}
        compiled = [_is_whole(c, *target) for target in targets.items()]
        seen.update([half] if any(compiled) else [])
        return any(compiled)

    law, (share, least) = "11 code for other processors", (4, LEAST) if LONG else (1, 1)
    on_random_calls(kernel_op, law, record_property, body, share=share, dtypes=1, least=least)


def _is_whole(c: Call, name: str, target: Target) -> bool:
    code = code_for(c, target)
    missing = sorted(n for n in undefined(code) if n.startswith("__")) if code is not None else []
    assert not missing, f"code of {c.property.op} for {name} calls {', '.join(missing)}, which nobody links"
    return code is not None
