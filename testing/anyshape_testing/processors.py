"""Law 11: a kernel can be compiled for other processors, and calls no function of a library that is missing at run time.

In: an op's calls. Out: an object file for NEON, for RISC-V's vectors and for x86-64 without AVX, and the undefined symbols of each. Where a
processor lacks an instruction, LLVM may call a function of its runtime library, whose names begin with two underscores: JIT-compiled code
is not linked with that library.
"""

from __future__ import annotations

import struct
from typing import Any

from anyshape.errors import AnyshapeError, UnsupportedError
from anyshape.graph.call import call_node
from anyshape.lower import Group, Lowering
from anyshape.lower.llvm.jit import compile_object
from anyshape.lower.target import Target, byte_permutations, dot_products, vector_unit
from anyshape_testing.accounting import LEAST
from anyshape_testing.calls import Call, Symbols, equations, valid_node
from anyshape_testing.execution import program_key
from anyshape_testing.profile import WIDE
from anyshape_testing.running import on_random_calls

_CACHES = {"l1_bytes": 32 << 10, "l2_bytes": 512 << 10, "l3_bytes": 4 << 20}
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_SYMBOL_TABLE = 2


def processor(triple: str, cpu: str, features: str) -> Target:
    """Describes a processor by LLVM's names."""
    names = {f.removeprefix("+"): True for f in features.split(",")}
    width, registers, fma, masks, scalef = vector_unit(triple, names)
    f16 = triple.startswith("aarch64") or "f16c" in names
    return Target(
        triple=triple,
        cpu=cpu,
        features=features,
        vector_bytes=width,
        vector_registers=registers,
        **_CACHES,
        fma=fma,
        masks=masks,
        scalef=scalef,
        f16=f16,
        dots=dot_products(width, names),
        permutes_bytes=byte_permutations(width, names),
    )


NEON = processor("aarch64-unknown-linux-gnu", "neoverse-n1", "+neon")
RVV = processor("riscv64-unknown-linux-gnu", "generic-rv64", "+m,+a,+f,+d,+c,+v,+zvl128b")
SSE = processor("x86_64-unknown-linux-gnu", "x86-64-v2", "+sse4.2")
OTHERS = {"NEON": NEON, "RISC-V": RVV, "SSE 4.2": SSE}


def undefined(code: bytes) -> set[str]:
    """Lists the undefined symbols of an object file (ELF, 64 bits, little-endian)."""
    at, size, count = struct.unpack_from("<Q", code, 0x28)[0], *struct.unpack_from("<HH", code, 0x3A)
    sections = [_SECTION.unpack_from(code, at + k * size) for k in range(count)]
    undefined_names = set()
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind == _SYMBOL_TABLE:
            names = sections[link][4]
            for symbol in range(offset, offset + length, _SYMBOL.size):
                name, _, _, section, _, _ = _SYMBOL.unpack_from(code, symbol)
                if name and not section:
                    start = names + name
                    undefined_names.add(code[start : code.index(b"\0", start)].decode())
    return undefined_names


def code_for(c: Call, target: Target) -> bytes | None:
    """Compiles the call's kernel on symbols to an object file; None for a view, and for equations that become several kernels."""
    try:
        node = call_node(c.op, c.values(Symbols({})), c.params)
    except AnyshapeError:  # refused on symbols, as law 3 says
        return None
    if node.op.kernel is None or any(v.type.shape is None for v in node.outputs):
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
        if half in seen and not WIDE:
            return False
        targets = OTHERS if WIDE else {"SSE 4.2": SSE} if half else {"NEON": NEON, "RISC-V": RVV}
        compiled = [_is_whole(c, *target) for target in targets.items()]
        seen.update([half] if any(compiled) else [])
        return any(compiled)

    law, (share, least) = "11 code for other processors", (4, LEAST) if WIDE else (1, 1)
    on_random_calls(kernel_op, law, record_property, body, share=share, every_dtype=True, least=least)


def _is_whole(c: Call, name: str, target: Target) -> bool:
    code = code_for(c, target)
    missing = sorted(n for n in undefined(code) if n.startswith("__")) if code is not None else []
    assert not missing, f"code of {c.property.op} for {name} calls {', '.join(missing)}, which nobody links"
    return code is not None
