"""LLVM text to object bytes, object bytes to callable addresses.

In: the text of a module and a `Target`. Out: position-independent object code (`compile_object`, a pure function whose
result may be kept anywhere), and its loaded form (`load_object`). `compile_module` is both, through the caches.
Only the code generator runs, on text that is in final form but for scalars in stack slots (`scalars`).
`ANYSHAPE_DUMP=llvm,asm` prints both to stderr.
"""

from __future__ import annotations

import hashlib
import itertools
import mmap
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache

import llvmlite

from anyshape.disk_cache import DiskCache
from anyshape.errors import AnyshapeError
from anyshape.logs import CACHE

from ..binding import binding as llvm
from ..target import CODE_GENERATOR, Target, initialize
from .builder import Module
from .scalars import passes_of, simplified

_LIBRARY_NUMBERS = itertools.count()
_LEVEL = 1  # the code is as fast as at 2, and is there a fifth sooner

_ROOM, _ROOM_TO_LINK = 32 << 20, 8 << 20
"""Bytes of address space that LLVM may take to compile and to link a small module: 17 MB and less than 1 were seen."""
_ROOM_OF_TEXT, _ROOM_OF_FUNCTION = 32, 200
"""Bytes that it may take for each character of a text, and for each of the longest function besides: half of them were seen."""
_ROOM_OF_CODE = 8
"""Bytes that it may take for each byte of object code that is linked."""


class CodegenError(AnyshapeError):
    """LLVM text does not parse, or object code does not link: a defect of anyshape, never of a model."""


class Loaded:
    """Object code in memory. Its addresses are valid as long as this object lives."""

    def __init__(self, tracker: object, addresses: Mapping[str, int]) -> None:
        self._tracker = tracker
        self._addresses = dict(addresses)

    def address(self, symbol: str) -> int:
        try:
            return self._addresses[symbol]
        except KeyError:
            raise CodegenError(f"no symbol {symbol!r} was exported; there are {sorted(self._addresses)}") from None

    @property
    def addresses(self) -> dict[str, int]:
        return dict(self._addresses)


@cache
def _machine(target: Target) -> llvm.TargetMachine:
    initialize()
    if target.triple.split("-")[0] != llvm.get_default_triple().split("-")[0]:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=_LEVEL, reloc="pic", codemodel="small", jit=False
    )


@cache
def _engine() -> object:
    initialize()
    return llvm.create_lljit_compiler(use_jit_link=True)


def _demand_room(size: int) -> None:
    """Raises MemoryError unless the process can have so many bytes more: LLVM ends the process where its own allocations fail."""
    try:
        mmap.mmap(-1, size).close()
    except OSError as error:
        raise MemoryError(f"LLVM needs {size} bytes") from error


def compile_object(text: str, target: Target) -> bytes:
    """Object code of a module's text. Runs no IR pass."""
    dump = os.environ.get("ANYSHAPE_DUMP", "").split(",")
    if "llvm" in dump:
        print(text, file=sys.stderr)
    if "asm" in dump:
        print(assembly(text, target), file=sys.stderr)
    with CODE_GENERATOR, _addresses_as_written(target):
        return bytes(_machine(target).emit_object(_parsed(text, target)))


def assembly(text: str, target: Target) -> str:
    """Compiles the text of a module to readable assembly."""
    with CODE_GENERATOR, _addresses_as_written(target):
        return str(_machine(target).emit_assembly(_parsed(text, target)))


def _keeps_addresses(target: Target) -> bool:
    """Whether code is generated without loop strength reduction: it takes time, and where instructions add a scaled index hardly a kernel
    is faster by it (docs/matrix-product.md)."""
    return target.triple.startswith("x86_64")


@contextmanager
def _addresses_as_written(target: Target) -> Iterator[None]:
    """Sets LLVM's option for what is generated inside: options are of the process, and somebody else may use LLVM there."""
    if not _keeps_addresses(target):
        yield
        return
    llvm.set_option("anyshape", "-disable-lsr=true")
    try:
        yield
    finally:
        llvm.set_option("anyshape", "-disable-lsr=false")


def _parsed(text: str, target: Target) -> llvm.ModuleRef:
    machine = _machine(target)
    _demand_room(_ROOM + _ROOM_OF_TEXT * len(text) + _ROOM_OF_FUNCTION * max(map(len, text.split("\ndefine "))))
    try:
        parsed = llvm.parse_assembly(text)
    except RuntimeError as error:
        raise CodegenError(f"LLVM does not accept the emitted text: {error}") from error
    parsed.triple = target.triple
    parsed.data_layout = str(machine.target_data)
    return simplified(parsed, text, machine)


def load_object(code: bytes, exports: Sequence[str], imports: Mapping[str, int] | None = None) -> Loaded:
    """Link object code into this process. `imports` are addresses of functions it calls; libc and libm are found."""
    return load_objects([code], exports, imports)


def load_objects(codes: Sequence[bytes], exports: Sequence[str], imports: Mapping[str, int] | None = None) -> Loaded:
    """Links several objects at once, which is faster than one by one."""
    with CODE_GENERATOR:
        _demand_room(_ROOM_TO_LINK + _ROOM_OF_CODE * sum(map(len, codes)))
        builder = llvm.JITLibraryBuilder().add_current_process()
        for code in codes:
            builder.add_object_img(code)
        for symbol, address in (imports or {}).items():
            builder.import_symbol(symbol, address)
        for symbol in exports:
            builder.export_symbol(symbol)
        try:
            tracker = builder.link(_engine(), f"anyshape.{next(_LIBRARY_NUMBERS)}")
        except RuntimeError as error:
            names = sorted(imports or {})
            raise CodegenError(f"object code does not link with imports {names}: {error}") from error
        return Loaded(tracker, {symbol: int(tracker[symbol]) for symbol in exports})


def object_key(text: str, target: Target) -> str:
    """The key under which the object of this text is cached: text, target and code generator decide."""
    digest = hashlib.sha256()
    for part in (
        text,
        repr(target),
        " ".join((f"{_LEVEL} {_keeps_addresses(target)}", *(add.__name__ for add in passes_of(text)))),
        llvmlite.__version__,
        repr(llvm.llvm_version_info),
    ):
        digest.update(part.encode())
        digest.update(b"\0")
    return digest.hexdigest()


@cache
def disk_cache() -> DiskCache:
    """The cache of this process, where `DiskCache.standard` says."""
    return DiskCache.standard()


_IN_PROCESS: dict[str, bytes] = {}
_IN_PROCESS_LIMIT = 1024


def object_for(text: str, target: Target) -> bytes:
    """`compile_object` through the in-process and the on-disk cache."""
    return object_by_key(object_key(text, target), lambda: text, target)


def object_by_key(key: str, text: Callable[[], str], target: Target) -> bytes:
    """The object under a key that the caller vouches for; the text is only written if no cache has it."""
    code, origin = _IN_PROCESS.get(key), "kept by the process"
    if code is None:
        code, origin = disk_cache().get(key), "from the cache on disk"
    if code is None:
        code, origin = compile_object(text(), target), "compiled"
        disk_cache().put(key, code)
    CACHE.debug("object %.12s: %s, %d bytes", key, origin, len(code))
    keep_object(key, code)
    return code


def keep_object(key: str, code: bytes) -> None:
    """Puts an object into the in-process cache."""
    with CODE_GENERATOR:
        if len(_IN_PROCESS) >= _IN_PROCESS_LIMIT:
            _IN_PROCESS.pop(next(iter(_IN_PROCESS)))
        _IN_PROCESS[key] = code


def compile_module(module: Module, imports: Mapping[str, int] | None = None) -> Loaded:
    """Compile (or take from a cache) and load a module; exports all its public functions."""
    missing = [name for name in module.imports if name not in (imports or {})]
    if missing:
        raise CodegenError(f"the module calls {missing}, whose addresses were not given")
    return load_object(object_for(module.text(), module.target), module.symbols, imports)
