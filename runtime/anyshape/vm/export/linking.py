"""Linking of an exported model: its kernels, the products that they call and the code around them become one object file.

In: the module of the code around, and texts of modules that it calls. Out: an object file, in which only the functions of the header are
visible; an archive of it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from functools import cache
from typing import Any

from anyshape.lower.binding import binding as llvm
from anyshape.lower.gemm.library import elements_of, library_module
from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import CodegenError
from anyshape.lower.llvm.scalars import simplified
from anyshape.lower.target import CODE_GENERATOR, initialize
from anyshape.vm.compiling.kernels import KernelText
from anyshape.vm.export.object_symbols import undefined
from anyshape.vm.export.targets import ExportTarget

_LEVEL = 1  # as in `lower.llvm.jit`
_USUAL_CASES = 4
"""LLVM's own number of cases from which a switch becomes a jump table"""
LIBRARY = frozenset({"memcpy", "memmove", "memset"})
"""Functions of the C library that any object may call; LLVM calls them for copies."""
MATHEMATICS = frozenset({"cos", "cosf", "fma", "fmod", "fmodf", "sin", "sinf"})
"""Functions of the library of mathematics (`-lm`) that some ops call."""


_OF_LINKER = frozenset({"_GLOBAL_OFFSET_TABLE_", "__stack_pointer", "__linear_memory", "__indirect_function_table"})


@cache
def _machine(target: ExportTarget) -> Any:
    initialize()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    processor = target.processor
    return llvm.Target.from_triple(processor.triple).create_target_machine(
        cpu=processor.cpu,
        features=processor.features,
        opt=_LEVEL,
        reloc="pic",
        codemodel="small",
        jit=False,
        abiname=target.abi,
    )


@contextmanager
def _machines_anew() -> Iterator[None]:
    """Constructs each target's machine anew, and forgets what that changed: LLVM keeps for the whole process from how many cases on a
    switch becomes a jump table, which some targets set where their machine first compiles, and others leave as it is. So no other thread
    may make code meanwhile."""
    _machine.cache_clear()
    _set_usual_cases()
    try:
        yield
    finally:
        _set_usual_cases()


def _set_usual_cases() -> None:
    llvm.set_option("anyshape", f"-min-jump-table-entries={_USUAL_CASES}")


Kernels = Mapping[ExportTarget, Iterable[KernelText]]
"""The kernels of each level"""


def link(around: Sequence[Module], kernels: Kernels, target: ExportTarget) -> bytes:
    """Links modules with their kernels; returns the object file. Their own code is optimised; that of kernels is in final form."""
    with CODE_GENERATOR, _machines_anew():
        code = _linked(around, kernels, target)
    if strange := sorted(undefined(code) - LIBRARY - MATHEMATICS - _OF_LINKER):
        raise CodegenError(f"the code of {target.name} calls {', '.join(strange)}, which no C library is sure to have")
    return code


def _linked(around: Sequence[Module], kernels: Kernels, target: ExportTarget) -> bytes:
    whole, *imported = (_optimised(_parsed(m.text(), target), target) for m in around)
    for other in imported:
        whole.link_in(other)
    shared = {value.name for value in _definitions(whole)}
    for level in target.levels:
        _link_level(whole, {k.symbol: k for k in kernels[level]}, level)
        _hide(whole, shared)  # the next level has products of the same names
    _hide(whole, {s for m in around for s in m.symbols})
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(
        whole, llvm.create_pass_builder(_machine(target), llvm.create_pipeline_tuning_options(speed_level=_LEVEL))
    )
    try:
        whole.verify()
    except RuntimeError as error:
        raise CodegenError(f"LLVM does not accept the code of {target.name}: {error}") from error
    return bytes(_machine(target).emit_object(whole))


def _definitions(whole: Any) -> Iterator[Any]:
    return (value for value in (*whole.functions, *whole.global_variables) if not value.is_declaration)


def _hide(whole: Any, visible: Set[str]) -> None:
    for value in _definitions(whole):
        if value.name not in visible:
            value.linkage = "internal"


def _link_level(whole: Any, texts: Mapping[str, KernelText], level: ExportTarget) -> None:
    """Links the kernels of a level, by their symbols, and the products that they call."""
    for k in texts.values():
        whole.link_in(_parsed(k.text, level))
    for element in elements_of([name for k in texts.values() for name in k.imports]):
        whole.link_in(_parsed(library_module(level.processor, element).text(), level))


def _parsed(text: str, target: ExportTarget) -> Any:
    try:
        parsed = llvm.parse_assembly(text)
    except RuntimeError as error:
        raise CodegenError(f"LLVM does not accept the emitted text: {error}") from error
    parsed.triple = target.processor.triple
    parsed.data_layout = str(_machine(target).target_data)
    return simplified(parsed, text, _machine(target))


def _optimised(module: Any, target: ExportTarget) -> Any:
    """Makes values of the registers, and leaves out what nothing needs."""
    passes = llvm.create_new_module_pass_manager()
    passes.add_sroa_pass()
    passes.add_sccp_pass()
    if target.processor.multiplies_128:  # else it would make of a product that is checked by division one of 128 bits
        passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_new_gvn_pass()
    passes.add_dead_code_elimination_pass()
    passes.add_simplify_cfg_pass()
    if target.several:  # what no level decides is there for each
        passes.add_merge_functions_pass()
    passes.run(
        module, llvm.create_pass_builder(_machine(target), llvm.create_pipeline_tuning_options(speed_level=_LEVEL))
    )
    return module


def archive(name: str, content: bytes, symbols: Sequence[str]) -> bytes:
    """A static library of one object file, with an index of its symbols, as GNU's `ar` makes it; no times and no owners."""
    index_names = b"".join(s.encode() + b"\0" for s in symbols)
    index_size = 4 + 4 * len(symbols) + len(index_names)
    long_names = f"{name}/\n".encode()

    def member(title: str, body: bytes) -> bytes:
        head = f"{title:<16}{0:<12}{0:<6}{0:<6}{0o644:<8o}{len(body):<10}`\n".encode()
        return head + body + b"\n" * (len(body) % 2)

    first = 8 + 60 + index_size + index_size % 2 + 60 + len(long_names) + len(long_names) % 2
    index = struct.pack(f">{1 + len(symbols)}I", len(symbols), *([first] * len(symbols))) + index_names
    return b"!<arch>\n" + member("/", index) + member("//", long_names) + member("/0", content)
