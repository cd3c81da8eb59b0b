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
    first, whose `processor` it has; empty for one that joins none. `by_default`: whether libraries for whichever processor of the
    architecture have its code unless others are named; each target takes as long to build as any other."""

    name: str
    processor: Target
    what: str
    abi: str = ""
    pointer_bytes: int = 8
    by_default: bool = field(default=True, kw_only=True)
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


_AVX2 = "+sse4.2,+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt"
_AVX512 = f"{_AVX2},+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx512cd"
_AVX512_ZEN4 = (
    f"{_AVX512},+avx512ifma,+avx512vbmi,+avx512vbmi2,+avx512vnni,+avx512bitalg,+avx512vpopcntdq,+avx512bf16,+gfni"
)
"""What Zen 4 and Sapphire Rapids both have. LLVM's name of neither is used: it would bring SSE4A, which Intel's lack, and AVX-VNNI, which
Zen 4 lacks."""
_LINUX = "unknown-linux-gnu"
_WASM = "+simd128,+bulk-memory,+sign-ext,+nontrapping-fptoint,+mutable-globals"


def _x86(level: str, features: str, caches: tuple[int, int, int], what: str) -> ExportTarget:
    target = processor(f"x86_64-{_LINUX}", level, features, caches)
    return ExportTarget(level, target, what)


def _x86_of(name: str, processor: Target, what: str) -> ExportTarget:
    """A target for processors of some kinds, beside the levels that the psABI has."""
    return ExportTarget(name, processor, what, by_default=False)


_SMALL, _LARGE = (32 << 10, 512 << 10, 4 << 20), (32 << 10, 1 << 20, 16 << 20)
_ZEN4 = processor(f"x86_64-{_LINUX}", "x86-64-v4", f"{_AVX512_ZEN4},-fast-gather", _LARGE)
"""Zen 4, and what has its instructions. LLVM's own tuning for it has no fast gathers, that for x86-64-v4 has."""
_SAPPHIRE_RAPIDS = replace(
    processor(f"x86_64-{_LINUX}", "x86-64-v4", f"{_AVX512_ZEN4},+avx512fp16", (48 << 10, 2 << 20, 30 << 20)),
    slow_pairs=True,
)
"""Sapphire Rapids without its matrix tiles, for which a process needs a permission of the operating system. Its vectors of pairs take
longer than as many numbers of f32, as was measured on a processor that LLVM calls emeraldrapids (`precision.md`)."""
_LISTED = (
    _x86("x86-64-v2", "+sse4.2", _SMALL, "any x86-64 processor with SSE 4.2"),
    _x86("x86-64-v3", _AVX2, _SMALL, "x86-64 with AVX2"),
    _x86("x86-64-v4", _AVX512, _LARGE, "x86-64 with AVX-512"),
    _x86_of("znver4", _ZEN4, "x86-64 with AVX-512 that multiplies bytes and bf16 (Zen 4, Sapphire Rapids, and later ones)"),
    _x86_of("sapphirerapids", _SAPPHIRE_RAPIDS, "x86-64 with AVX-512 that multiplies bytes, bf16 and f16 (Sapphire Rapids)"),
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
    """The target that joins the levels that are there `by_default` of processors like this one."""
    own = export_target(None)
    return export_target([t.name for t in _LISTED if t.architecture == own.architecture and t.by_default])


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
    features = _present(own.processor)
    return [t for t in _LISTED if t.architecture == own.architecture and _present(t.processor) <= features]


def _present(target: Target) -> set[str]:
    return {f for f in target.features.split(",") if f.startswith("+")}
