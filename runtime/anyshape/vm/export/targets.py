"""Targets of an export: processors by name, described here alone, so that what is made does not depend on the machine that makes it.

In: a name. Out: an `ExportTarget`. Sizes of caches, from which the sizes of blocks follow, are those of a common processor of the kind.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass

from anyshape.errors import ArgumentError
from anyshape.lower.target import Target, host_target, processor


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """`abi` is LLVM's name of the calling convention, where the triple does not decide it."""

    name: str
    processor: Target
    what: str
    abi: str = ""
    pointer_bytes: int = 8


_AVX2 = "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt"
_LINUX = "unknown-linux-gnu"
_WASM = "+simd128,+bulk-memory,+sign-ext,+nontrapping-fptoint,+mutable-globals"


def _x86(level: str, features: str, caches: tuple[int, int, int], what: str) -> ExportTarget:
    target = processor(f"x86_64-{_LINUX}", level, features, caches)
    return ExportTarget(level, target, what)


_SMALL, _LARGE = (32 << 10, 512 << 10, 4 << 20), (32 << 10, 1 << 20, 16 << 20)
_LISTED = (
    _x86("x86-64-v2", "+sse4.2", _SMALL, "any x86-64 processor with SSE 4.2"),
    _x86("x86-64-v3", f"+sse4.2,{_AVX2}", _SMALL, "x86-64 with AVX2"),
    _x86(
        "x86-64-v4", f"+sse4.2,{_AVX2},+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd", _LARGE, "x86-64 with AVX-512"
    ),
    ExportTarget(
        "aarch64-linux-gnu", processor(f"aarch64-{_LINUX}", "generic", "+neon", _SMALL), "64-bit ARM"
    ),
    ExportTarget(
        "riscv64-linux-gnu", processor(f"riscv64-{_LINUX}", "generic-rv64", "+m,+a,+f,+d,+c", _SMALL),
        "64-bit RISC-V (RV64GC), without vectors", "lp64d",
    ),
    ExportTarget(
        "wasm32", processor("wasm32-unknown-unknown", "generic", _WASM, _SMALL), "WebAssembly with SIMD", pointer_bytes=4
    ),
)  # fmt: skip
TARGETS = {t.name: t for t in _LISTED}
_OWN = {"x86_64": "x86-64-v3", "amd64": "x86-64-v3", "aarch64": "aarch64-linux-gnu", "arm64": "aarch64-linux-gnu"}


def export_target(name: str | None) -> ExportTarget:
    """The target of that name; None: the usual one of machines like this one. Raises ArgumentError for another name."""
    chosen = _OWN.get(platform.machine().lower(), "x86-64-v3") if name is None else name
    if chosen not in TARGETS:
        raise ArgumentError(f"there is no target {chosen!r} to export for; there are {', '.join(TARGETS)}")
    return TARGETS[chosen]


def own_targets() -> list[ExportTarget]:
    """The targets that this machine can run, that of most features last."""
    own = host_target()
    machine, features = own.triple.partition("-")[0], {*own.features.split(",")}
    listed = [(t, t.processor.triple.partition("-")[0], {*t.processor.features.split(",")}) for t in _LISTED]
    return [t for t, of, needed in listed if of == machine and needed <= features]
