"""Targets of an export: processors by name, described here alone, so that what is made does not depend on the machine that makes it.

In: a name, or several. Out: an `ExportTarget`. Sizes of caches, from which the sizes of blocks follow, are those of a common processor
of the kind.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from anyshape.errors import ArgumentError
from anyshape.lower.target import Target, host_target, processor


@dataclass(frozen=True, slots=True)
class ExportTarget:
    """`abi` is LLVM's name of the calling convention, where the triple does not decide it. `several`: the targets that it joins, the lowest
    first, whose `processor` it has; empty for one that joins none."""

    name: str
    processor: Target
    what: str
    abi: str = ""
    pointer_bytes: int = 8
    several: tuple[ExportTarget, ...] = field(default=(), kw_only=True)

    @property
    def levels(self) -> tuple[ExportTarget, ...]:
        """The targets that there is code of kernels for, the lowest first."""
        return self.several or (self,)

    @property
    def architecture(self) -> str:
        return self.processor.triple.partition("-")[0]

    @property
    def has_javascript(self) -> bool:
        """Whether JavaScript runs the code: a module and what calls it are a part of the export."""
        return self.architecture == "wasm32"


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


def export_target(names: str | Sequence[str] | None) -> ExportTarget:
    """The target of that name, or one that joins several, of names or of text with commas; None: the usual one of machines like this one.
    Raises ArgumentError for other names, and for targets that one object cannot have the code of."""
    if names is None:
        names = _OWN.get(platform.machine().lower(), "x86-64-v3")
    chosen = names.split(",") if isinstance(names, str) else [*names]
    for name in chosen:
        if name not in TARGETS:
            raise ArgumentError(f"there is no target {name!r} to export for; there are {', '.join(TARGETS)}")
    if not chosen:
        raise ArgumentError(f"target must name at least one of {', '.join(TARGETS)}, got none")
    return TARGETS[chosen[0]] if len(chosen) == 1 else _joined(chosen)


def own_levels() -> ExportTarget:
    """The target that joins all levels of processors like this one."""
    own = export_target(None)
    return export_target([t.name for t in _LISTED if t.architecture == own.architecture])


def asking(target: ExportTarget) -> ExportTarget:
    """The target whose code asks the processor whether it has the level, also where it is for one level; of x86-64 alone, as targets of
    other architectures have one level."""
    return replace(target, several=target.levels) if target.architecture == "x86_64" else target


def _joined(names: Sequence[str]) -> ExportTarget:
    """The target that joins levels of one architecture. Raises ArgumentError for one that is named twice, and for two architectures."""
    levels = tuple(t for t in _LISTED if t.name in names)
    lowest = levels[0]
    if len(levels) < len(names):
        twice = next(n for n in names if names.count(n) > 1)
        raise ArgumentError(
            f"target {twice!r} is named twice in {','.join(names)}; name each level once, of {', '.join(TARGETS)}"
        )
    if other := next((t for t in levels if t.architecture != lowest.architecture), None):
        of_one = ", ".join(t.name for t in _LISTED if t.architecture == lowest.architecture)
        raise ArgumentError(
            f"targets {lowest.name} ({lowest.architecture}) and {other.name} ({other.architecture}) are two architectures; the levels of "
            f"one object are of one, as {of_one}"
        )
    what = f"{'; or '.join(t.what for t in levels)}; chosen at the first call"
    return replace(lowest, name=",".join(t.name for t in levels), what=what, several=levels)


def own_targets() -> list[ExportTarget]:
    """The targets that this machine can run, that of most features last."""
    own = replace(_LISTED[0], processor=host_target())
    features = {*own.processor.features.split(",")}
    return [t for t in _LISTED if t.architecture == own.architecture and {*t.processor.features.split(",")} <= features]
