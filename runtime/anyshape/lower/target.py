"""The processor that machine code is generated for: vector width, registers, caches. Every tile size is derived from here.

In: llvmlite's description of the host, and the cache sizes that Linux publishes. Out: a frozen `Target`. No other file may hold a constant
of one processor.
"""

from __future__ import annotations

import ctypes
import re
import sys
import threading
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from anyshape.lower.binding import binding
from anyshape.lower.pair_speed import are_pairs_slow

CODE_GENERATOR = threading.RLock()
"""Held while LLVM parses text and makes code: its options and its context are of the process."""
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_FALLBACK = {1: 32 << 10, 2: 512 << 10, 3: 4 << 20}
_LINE = 64
_AVX512 = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18
"""Linux's numbers for x86-64: of the system call, of asking it for a state that signals have no room for by themselves, of that state"""
_FEWEST_ROWS = 5
"""Rows from which on emulated tiles multiply: tests have small examples."""


@dataclass(frozen=True, kw_only=True)
class MatrixTiles:
    """Matrix tiles (AMX): eight registers of 16 rows of 64 bytes, and instructions that multiply them. `pairs`: there are products of pairs
    of bf16; `dots`: of four bytes with and without sign. `emulated`: functions compute what the instructions would, for tests.

    `least_rows`: rows of a product from which on tiles multiply it, where vectors multiply the same words quickly; fewer leave most rows
    of a tile idle (`python -m benchmarks.matrix_tiles`: vectors of bytes are ahead up to eight rows, and behind from sixteen on)."""

    pairs: bool
    dots: bool
    emulated: bool = False
    least_rows: int = 16


@dataclass(frozen=True, kw_only=True)
class Target:
    """A processor to generate code for.

    `vector_bytes` is the widest vector worth using, `vector_registers` how many of them there are; `fma` says that a fused multiply-add is
    one instruction, `masks` that masked loads and stores are, `scalef` that AVX-512's multiplication by a power of two is there; `f16` that
    there are instructions between f16 and f32; `dots` that products of four bytes, one with a sign and one without, are added up by one;
    `pairs` that products of two bf16 are, `slow_pairs` that multiply-adds of f32 multiply as many numbers in less time than these;
    `halves` that multiply-adds of f16 are there, of which a vector has twice as many as of f32, `emulates_halves` that other instructions
    compute what they would, for tests; `permutes_bytes` that one picks any bytes of two vectors of 64. `line_bytes` come from memory
    together. `matrix_tiles` are those that this process may use.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    fma: bool = True
    masks: bool = True
    scalef: bool = False
    f16: bool = False
    dots: bool = False
    pairs: bool = False
    slow_pairs: bool = False
    halves: bool = False
    emulates_halves: bool = False
    permutes_bytes: bool = False
    line_bytes: int = _LINE
    matrix_tiles: MatrixTiles | None = None
    foreign: bool = field(default=False, repr=False)
    """Whether its code is for another machine than this one, and never runs here; caches are for the code, which is the same."""

    @property
    def without_tiles(self) -> Target:
        """This processor without its matrix tiles: what was measured of vectors holds for both."""
        return self if self.matrix_tiles is None else replace(self, matrix_tiles=None)

    @property
    def multiplies_pairs(self) -> bool:
        """Whether products of bf16 are multiplied as pairs: by matrix tiles, or by vectors where these are faster than those of f32."""
        return self.pairs and (not self.slow_pairs or (self.matrix_tiles is not None and self.matrix_tiles.pairs))

    @property
    def picks_of_sixteen(self) -> bool:
        """Whether an instruction picks, for each byte of a vector of 32, one out of 16, and 0 for a negative index (AVX2)."""
        return self.triple.startswith("x86_64") and self.vector_bytes == 32

    @property
    def adds_pairs_of_bytes(self) -> bool:
        """Whether an instruction multiplies bytes without a sign by bytes with one, and adds two products as 16 bits (SSSE3)."""
        return self.triple.startswith("x86_64") and (self.vector_bytes >= 32 or "+ssse3" in self.features.split(","))

    @property
    def extremes_u64(self) -> bool:
        """Whether the lesser of two 64-bit integers without sign is one instruction, in vectors."""
        return self.scalef or self.triple.startswith("riscv64")

    @property
    def multiplies_128(self) -> bool:
        """Whether instructions give both halves of a product of 64 bits."""
        return not self.triple.startswith("wasm32")

    def permutes(self, element_bytes: int, lanes: int) -> bool:
        """Whether an instruction or two pick any lanes of two vectors of such elements, which are loaded under a mask."""
        if not self.triple.startswith("x86_64") or not self.masks:
            return False
        if self.scalef:
            return max(4, element_bytes) * lanes in (16, 32, 64)
        return element_bytes == 4 and lanes == 8

    def picks_lanes(self, element_bytes: int, lanes: int) -> bool:
        """Whether an instruction picks any lanes of one vector of such elements, and a vector of f32 is a part of a line of the cache, so
        that memory is written faster row by row than in columns of such vectors."""
        return self.picks_of_sixteen and element_bytes in (2, 4) and lanes == 8

    @property
    def reads_narrow_constants(self) -> bool:
        """Whether a product takes less time with constants in the bits that they were folded from than as f32: a vector of 16 is widened by
        two instructions. Of 8, four rows take up to 1.16 times as long where the last cache holds the constant; of 4, all take longer."""
        return self.scalef and self.f16

    @property
    def has_buffers_to_prefetch(self) -> bool:
        """Whether the first cache has miss buffers to spare for lines that are prefetched from the last one. Until a line arrives it holds
        one, which the processor's own prefetches, into the second cache, do not. A first cache of 48 KiB comes with enough of them."""
        return self.l1_bytes > 32 << 10

    @property
    def has_mask_registers(self) -> bool:
        """Whether a truth for each lane is in a register of its own kind. Elsewhere it is as wide as the lanes that were compared."""
        return self.scalef or self.triple.startswith("riscv64")

    @property
    def interleaves_chains(self) -> bool:
        """Whether long chains of instructions for several vectors take less time with an instruction of each in turn. AVX2's are half as
        long again as AVX-512's, which has scales, masks and more registers."""
        return self.triple.startswith("x86_64") and not self.scalef

    @property
    def lines_ahead(self) -> int:
        """How many lines ahead a kernel prefetches that reads all of them once; 0: none. Where miss buffers are few, loads of whole lines
        alone fill them, and prefetching costs a fifth of the rate; loads of parts of lines do not (`matrix-product.md`)."""
        if self.has_buffers_to_prefetch:
            return 12
        return 4 if self.vector_bytes < self.line_bytes else 0

    @property
    def last_cache_holds(self) -> int:
        """Bytes that a kernel may read and write, each once, and that are still in the last cache at the next call: other work takes some
        of it. C libraries usually copy past the caches from this size on."""
        return self.l3_bytes // 4 * 3

    @property
    def piece_bytes(self) -> int:
        """Bytes that the C library is called to copy at once: what is larger than the second cache it copies by another method, which is no
        faster than vectors."""
        return self.l2_bytes // 8

    def lanes(self, element_bytes: int) -> int:
        """How many elements of that size a vector holds."""
        return max(1, self.vector_bytes // element_bytes)

    def limited(self, level: str) -> Target:
        """Returns this machine with fewer of its instructions: `avx512` (as it is, but for matrix tiles), `avx512f` (AVX-512 as
        its first server processors had it, with no products of bytes or of bf16), `avxvnni` (AVX2 with dot products of bytes), `avx2` or
        `sse`; `amx` is this machine with matrix tiles, `fp16` with multiply-adds of f16 in place of tiles, both emulated where it has none.
        For tests and comparisons."""
        if not self.triple.startswith("x86_64"):
            return self
        if level == "amx":
            return self if self.matrix_tiles is not None else replace(self, matrix_tiles=self._emulated_tiles())
        if level == "fp16":
            wide = self.vector_bytes == 64
            return replace(self.without_tiles, halves=wide, emulates_halves=wide and not self.halves)
        if level == "avx512":
            return self.without_tiles
        on = [f[1:] for f in self.features.split(",") if f.startswith("+")]
        off = [f for f in on if f.startswith(("avx512", "avx10", "amx"))]
        if level == "avx512f":
            off = [f for f in off if f not in (*_AVX512, "avx512cd")]
            features = self.features + "".join(f",-{f}" for f in off)
            return replace(
                self,
                features=features,
                dots=False,
                pairs=False,
                slow_pairs=False,
                halves=False,
                permutes_bytes=False,
                matrix_tiles=None,
            )
        dots = level == "avxvnni" and "avxvnni" in on
        if not dots:
            off += [f for f in on if f.startswith("avxvnni")]
        if level == "sse":
            off += [f for f in on if f in ("avx", "avx2", "fma", "fma4", "f16c", "xop")]
        limited = replace(
            self,
            features=self.features + "".join(f",-{f}" for f in off),
            vector_registers=16,
            scalef=False,
            dots=dots,
            pairs=False,
            slow_pairs=False,
            halves=False,
            permutes_bytes=False,
            matrix_tiles=None,
        )
        if level in ("avx2", "avxvnni"):
            return replace(limited, vector_bytes=min(32, self.vector_bytes))
        return replace(limited, vector_bytes=16, cpu="x86-64-v2", fma=False, masks=False, f16=False)

    def _emulated_tiles(self) -> MatrixTiles | None:
        """Tiles for the words that this processor multiplies: the instructions of these pack words for tiles, too."""
        if self.vector_bytes != 64 or not (self.pairs or self.dots):
            return None
        return MatrixTiles(pairs=self.pairs, dots=self.dots, emulated=True, least_rows=_FEWEST_ROWS)


def _parse_size(text: str) -> int:
    text = text.strip()
    unit = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 0)
    return int(text[:-1]) * unit if unit else int(text)


def _cache_bytes() -> dict[int, int]:
    """Bytes per cache level of the first core, from Linux; a level that cannot be read keeps a modest default."""
    sizes = dict(_FALLBACK)
    for index in sorted(_CACHES.glob("index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            sizes[int((index / "level").read_text())] = _parse_size((index / "size").read_text())
        except (OSError, ValueError):
            continue
    return sizes


def _line_bytes() -> int:
    try:
        return _parse_size((_CACHES / "index0" / "coherency_line_size").read_text()) or _LINE
    except (OSError, ValueError):
        return _LINE


def vector_unit(triple: str, features: dict[str, bool]) -> tuple[int, int, bool, bool, bool]:
    """(vector bytes, registers, fma, masks, scalef) that the feature list allows."""
    if triple.startswith(("aarch64", "arm64")):
        return 16, 32, True, False, False
    if triple.startswith("riscv64") and features.get("v", False):
        # "zvl256b": vectors have at least so many bits; "v" alone promises 128
        bits = [int(name[3:-1]) for name, on in features.items() if on and re.fullmatch(r"zvl\d+b", name)]
        return max(128, *bits) // 8, 32, True, True, False
    if all(features.get(name, False) for name in _AVX512):
        return 64, 32, True, True, True
    if features.get("avx2", False):
        return 32, 16, features.get("fma", False), True, False
    return 16, 16, features.get("fma", False), False, False


def dot_products(vector_bytes: int, features: dict[str, bool]) -> bool:
    """Whether there is an instruction that adds up products of four bytes, for the vectors that are used."""
    return features.get("avx512vnni" if vector_bytes == 64 else "avxvnni", False)


def pairs_of_bf16(vector_bytes: int, features: dict[str, bool]) -> bool:
    """Whether there is an instruction that adds up products of two bf16, for the vectors that are used."""
    return vector_bytes == 64 and features.get("avx512bf16", False)


def multiply_adds_of_f16(vector_bytes: int, features: dict[str, bool]) -> bool:
    """Whether there are multiply-adds of f16, for the vectors that are used."""
    return vector_bytes == 64 and features.get("avx512fp16", False)


def tiles_of(vector_bytes: int, features: dict[str, bool]) -> MatrixTiles | None:
    """The matrix tiles that a list of features has, beside the vectors that pack their operands."""
    if not features.get("amx-tile", False):
        return None
    pairs = features.get("amx-bf16", False) and pairs_of_bf16(vector_bytes, features)
    dots = features.get("amx-int8", False) and vector_bytes == 64 and dot_products(vector_bytes, features)
    return MatrixTiles(pairs=pairs, dots=dots) if pairs or dots else None


@cache
def tiles_permitted() -> bool:
    """Asks the operating system for the tiles, once a process: without its permission the first instruction with tiles ends the process.
    Threads that exist and that will have it too."""
    if not sys.platform.startswith("linux"):
        return False
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    return int(call(*map(ctypes.c_long, (_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA)))) == 0


def processor(
    triple: str, cpu: str, features: str, caches: tuple[int, int, int] = (32 << 10, 512 << 10, 4 << 20)
) -> Target:
    """A processor described by LLVM's names and the bytes of its caches, whatever this machine is."""
    names = {f.removeprefix("+"): True for f in features.split(",")}
    width, registers, fma, masks, scalef = vector_unit(triple, names)
    l1, l2, l3 = caches
    return Target(
        triple=triple,
        cpu=cpu,
        features=features,
        vector_bytes=width,
        vector_registers=registers,
        l1_bytes=l1,
        l2_bytes=l2,
        l3_bytes=l3,
        fma=fma,
        masks=masks,
        scalef=scalef,
        f16=triple.startswith("aarch64") or "f16c" in names,
        dots=dot_products(width, names),
        pairs=pairs_of_bf16(width, names),
        halves=multiply_adds_of_f16(width, names),
        permutes_bytes=byte_permutations(width, names),
        foreign=True,
    )


def byte_permutations(vector_bytes: int, features: dict[str, bool]) -> bool:
    """Whether there is an instruction that picks any bytes of two vectors, for the vectors that are used."""
    return vector_bytes == 64 and features.get("avx512vbmi", False)


def initialize() -> None:
    """Make LLVM's code generator for this machine ready; cheap when repeated."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


@cache
def host_target() -> Target:
    """The machine this process runs on."""
    initialize()
    triple = binding.get_default_triple()
    names = binding.get_host_cpu_features()
    vector_bytes, registers, fma, masks, scalef = vector_unit(triple, dict(names))
    sizes, tiles = _cache_bytes(), tiles_of(vector_bytes, dict(names))
    described = Target(
        triple=triple,
        cpu=binding.get_host_cpu_name(),
        features=names.flatten(),
        vector_bytes=vector_bytes,
        vector_registers=registers,
        l1_bytes=sizes[1],
        l2_bytes=sizes[2],
        l3_bytes=sizes[3],
        fma=fma,
        masks=masks,
        scalef=scalef,
        f16=triple.startswith(("aarch64", "arm64")) or names.get("f16c", False),
        dots=dot_products(vector_bytes, dict(names)),
        pairs=pairs_of_bf16(vector_bytes, dict(names)),
        halves=multiply_adds_of_f16(vector_bytes, dict(names)),
        permutes_bytes=byte_permutations(vector_bytes, dict(names)),
        line_bytes=_line_bytes(),
        matrix_tiles=tiles if tiles is not None and tiles_permitted() else None,
    )
    with CODE_GENERATOR:
        slow = described.pairs and are_pairs_slow(triple, described.cpu, described.features)
    return replace(described, slow_pairs=slow)
