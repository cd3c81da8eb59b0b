"""Export of a model: an object file, a C header and weights, which need neither Python nor a library to run.

In: a function. Out: an `Export`, whose files `write` puts into a folder. What cannot be exported is refused by an UnsupportedError that
names it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Literal

from anyshape.equations import entropy
from anyshape.errors import UnsupportedError
from anyshape.files import PathLike, write_files
from anyshape.graph.function import Function
from anyshape.lower.llvm import polling
from anyshape.lower.llvm.builder import Module
from anyshape.vm.compiling.folding import folding
from anyshape.vm.compiling.kernels import KernelText, text_of
from anyshape.vm.compiling.options import Options
from anyshape.vm.compiling.plans import Compiler
from anyshape.vm.export.budget import demand_budget
from anyshape.vm.export.certificate import Certificate, certify
from anyshape.vm.export.certificate_text import certificate_json, certificate_text
from anyshape.vm.export.entry_code import Entries, LevelVariants, Variant
from anyshape.vm.export.entry_knowledge import EntryKnowledge, analyse
from anyshape.vm.export.formula import ArenaFormulas, arena_formulas, widest
from anyshape.vm.export.header import Description, header, header_by_rank
from anyshape.vm.export.interface import Interface, checked_name, interface
from anyshape.vm.export.linking import LIBRARY, MATHEMATICS, archive, link
from anyshape.vm.export.loader import RankedModel, loader
from anyshape.vm.export.memory_code import define_growth
from anyshape.vm.export.object_symbols import undefined
from anyshape.vm.export.plan_code import define_plan
from anyshape.vm.export.pool_code import define_pool
from anyshape.vm.export.register_values import entry_values
from anyshape.vm.export.run_code import define_run, untranslated
from anyshape.vm.export.shared_library import link_shared, linker
from anyshape.vm.export.size_limits import SizeLimits
from anyshape.vm.export.status_code import Messages
from anyshape.vm.export.targets import ExportTarget
from anyshape.vm.export.tensor_code import define_by_rank, has_codes
from anyshape.vm.export.wasm_module import module_of
from anyshape.vm.export.weights import Weights, collect, own_bytes
from anyshape.vm.program.table import Op, Program
from anyshape.vm.report.causes import named
from anyshape.vm.report.summary import Report

FUNCTIONS = (
    "arena_bytes",
    "arena_bytes_shared",
    "check",
    "output_shape",
    "run",
    "run_shared",
)
"""Ends of the names of the functions that every header has"""
OF_TENSORS = ("plan_tensors", "run_tensors")
"""Ends of the names of the functions for tensors of DLPack"""
OF_LIMITS = ("arena_bytes_most",)
"""Ends of the names of the functions of a model of which elements decide how much memory a call needs, up to a limit"""
OF_LEVELS = ("level", "choose")
"""Ends of the names of the functions of an object that has code for several levels"""


@dataclass(frozen=True, slots=True)
class LevelPrograms:
    """What is known of the programs of a model that are compiled for one processor."""

    target: ExportTarget
    knowledge: tuple[EntryKnowledge, ...]

    def kernels(self) -> Iterator[KernelText]:
        for known in self.knowledge:
            yield from map(text_of, known.program.kernels)


@dataclass(frozen=True)
class Export:
    """An exported model. `object` is the code, `formulas` what the arena's bytes are made of."""

    _: KW_ONLY
    interface: Interface
    target: ExportTarget
    object: bytes
    header: str
    weights: Weights
    formulas: tuple[str, ...]
    functions: tuple[str, ...]
    """The functions that the object defines."""
    programs: tuple[tuple[Interface, tuple[LevelPrograms, ...]], ...]
    """What callers see of each model in the object, and what is known of its programs for each level."""
    own_weights: Mapping[str, int] = field(default_factory=dict)
    """The bytes of weights that a level alone has, by the name of each of several levels; else empty."""
    fits: tuple[str, ...] = ()
    """Sizes that fit the budget, as sentences."""
    ranked: RankedModel | None = None
    """What chooses a model by the rank of an input, if anything does."""

    @property
    def name(self) -> str:
        return self.interface.name

    @property
    def library(self) -> tuple[str, ...]:
        """The functions of the C library that the object calls."""
        return tuple(sorted(undefined(self.object) & (LIBRARY | MATHEMATICS)))

    def certificates(self) -> list[Certificate]:
        """Says for each model in the object, and each level, what keeps the accesses of its kernels in bounds."""
        return [certify(m, p.target.name, p.knowledge) for m, levels in self.programs for p in levels]

    def files(self) -> dict[str, bytes]:
        """The content of each file, by its name."""
        certificates, digest = self.certificates(), hashlib.sha256(self.object).hexdigest()
        files = {
            f"{self.name}.h": self.header.encode(),
            f"{self.name}.o": self.object,
            f"lib{self.name}.a": archive(f"{self.name}.o", self.object, self.functions),
            f"{self.name}.certificate.json": certificate_json(certificates, digest).encode(),
            f"{self.name}.certificate.txt": certificate_text(certificates, digest).encode(),
        }
        if self.weights.is_file:
            files[f"{self.name}.weights"] = self.weights.content()
        return {**files, **self._of_javascript()} if self.target.has_javascript else files

    def _of_javascript(self) -> dict[str, bytes]:
        """The module of WebAssembly, and what calls its functions; models of which DLPack has not the dtypes have no such."""
        models = [m for m, _ in self.programs]
        text = loader(self.name, models, self.weights.is_file, self.target.pointer_bytes, self.ranked)
        module = {f"{self.name}.wasm": module_of(self.object, self.functions)}
        return {**module, f"{self.name}.mjs": text.encode()} if text else module

    def write(self, folder: PathLike, shared: bool = False) -> list[Path]:
        """Writes the files; their paths. `shared`: a shared library too. Raises ArgumentError where that is not possible."""
        if shared:
            linker(self.target)  # before anything is written
        files = write_files(folder, self.files())
        return [*files, link_shared(Path(folder), self.name, self.target)] if shared else files


@dataclass(frozen=True, slots=True)
class Request:
    """What an export shall be: the target, options of the compile, where weights are (None lets their size decide), and the most bytes of
    the arena."""

    target: ExportTarget
    options: Options
    weights: Literal["inside", "file"] | None = None
    budget: int | None = None


@dataclass(frozen=True)
class _UnlinkedModel:
    """A model before it is linked."""

    _: KW_ONLY
    interface: Interface
    levels: tuple[LevelPrograms, ...]
    module: Module
    description: Description
    weights: Weights
    own_weights: Mapping[str, int]
    fits: tuple[str, ...]

    @property
    def header(self) -> str:
        return header(self.interface, self.description)


def export(
    f: Function,
    name: str,
    target: ExportTarget,
    options: Options,
    weights: Literal["inside", "file"] | None = None,
    budget: int | None = None,
) -> Export:
    """Exports a function under a name. `weights`: where they are; None lets their size decide. `budget`: the most bytes of the arena.

    Raises UnsupportedError for what cannot be exported or does not fit the budget, and what compiling raises."""
    part = _part(f, checked_name(name), Request(target, options, weights, budget))
    return Export(
        interface=part.interface,
        target=target,
        object=link([part.module], _kernels([part], target), target),
        header=part.header,
        weights=part.weights,
        formulas=tuple(part.description.formulas),
        fits=part.fits,
        functions=functions_of(part, target),
        programs=((part.interface, part.levels),),
        own_weights=part.own_weights,
    )


def export_ranks(functions: Mapping[int, Function], name: str, request: Request, ranked: int) -> Export:
    """Exports one function of several ranks: a model for each, and what chooses one by the rank of input number `ranked`. Raises what
    `export` raises, and UnsupportedError for dtypes that DLPack has not."""
    checked_name(name)
    parts = {r: _part(f, f"{name}_rank{r}", replace(request, weights="inside")) for r, f in functions.items()}
    if not has_codes(next(reversed(parts.values())).interface):
        raise UnsupportedError(
            f"{name}: DLPack packs elements of fewer than 8 bits; export one rank, whose functions take addresses"
        )
    module = Module(request.target.processor)
    define_by_rank(module, name, ranked, {r: p.interface.name for r, p in parts.items()}, request.target.pointer_bytes)
    joined = _joined(
        name, request, {f"rank {r}": p for r, p in parts.items()}, (module, header_by_rank(name, list(parts)))
    )
    return replace(joined, ranked=RankedModel(name, ranked, {r: p.interface.name for r, p in parts.items()}))


def export_several(
    functions: Mapping[str, Function], name: str, request: Request, refused: dict[str, str] | None = None
) -> Export:
    """Exports functions, each by a name of its own that begins its functions in C, as one object with weights inside. Raises what `export`
    raises; `refused` takes the reasons of functions that cannot be exported, unless all are such."""
    checked_name(name)
    inside, parts = replace(request, weights="inside"), dict[str, _UnlinkedModel]()
    for k, (n, f) in enumerate(functions.items()):
        try:
            parts[n] = _part(f, checked_name(n), inside)
        except UnsupportedError as e:
            if refused is None or (k + 1 == len(functions) and not parts):
                raise
            refused[n] = str(e)
    return _joined(name, request, parts)


def _joined(
    name: str, request: Request, parts: Mapping[str, _UnlinkedModel], around: tuple[Module, str] | None = None
) -> Export:
    """Links models as one object. `around`: code that calls them, and its declarations."""
    modules = [*([around[0]] if around else []), *(p.module for p in parts.values())]
    *_, last = parts.values()
    return Export(
        interface=replace(last.interface, name=name),
        target=request.target,
        object=link(modules, _kernels([*parts.values()], request.target), request.target),
        header="\n".join([*(p.header for p in parts.values()), *([around[1]] if around else [])]),
        weights=last.weights,
        formulas=tuple(f"{what}: {line}" for what, p in parts.items() for line in p.description.formulas),
        fits=tuple(f"{what}: {line.strip()}" for what, p in parts.items() for line in p.fits),
        functions=(
            *(around[0].symbols if around else []),
            *(n for p in parts.values() for n in functions_of(p, request.target)),
        ),
        programs=tuple((p.interface, p.levels) for p in parts.values()),
        own_weights={level: sum(p.own_weights[level] for p in parts.values()) for level in last.own_weights},
    )


def functions_of(part: _UnlinkedModel, target: ExportTarget) -> tuple[str, ...]:
    """The functions of the header of one model."""
    limits, tensors = part.description.is_limited, has_codes(part.interface)
    ends = FUNCTIONS + OF_LIMITS * limits + OF_TENSORS * tensors + (OF_LEVELS if target.several else ())
    return tuple(f"{part.interface.name}_{end}" for end in ends)


def _part(f: Function, name: str, request: Request) -> _UnlinkedModel:
    target, described = request.target, interface(f, name)
    levels = _analysed(f, target, request.options)
    formulas = widest([arena_formulas(p.knowledge, described) for p in levels])
    fits = _within(request.budget, formulas)
    programs = [known.program for p in levels for known in p.knowledge]
    stored, offsets = collect(programs, None if request.weights is None else request.weights == "file")
    constants = dict(zip(programs, offsets, strict=True))
    module = Module(target.processor)
    messages = Messages(module)
    define_growth(module)
    define_pool(module)
    module.word(polling.SYMBOL)
    code = _LevelCode(module, messages, described, constants, request.budget)
    defined = [code.define(p, f"{k}_" if target.several else "") for k, p in enumerate(levels)]
    entries = Entries(
        module,
        messages,
        described,
        defined,
        stored,
        pointer_bytes=target.pointer_bytes,
        is_limited=formulas.is_limited,
        asks=bool(target.several),
    )
    entries.define()
    description = Description(
        made_for=target.name.replace(",", ", "),
        formulas=formulas.lines(),
        grows=formulas.grows,
        is_limited=formulas.is_limited,
        unknown=_unknown(levels[0].knowledge[0], described),
        weight_bytes=len(stored.content()) if stored.is_file else 0,
        levels=tuple(p.name for p in target.several),
    )
    of_levels = {p.target.name: [o for known in p.knowledge for o in constants[known.program]] for p in levels}
    return _UnlinkedModel(
        interface=described,
        levels=tuple(levels),
        module=module,
        description=description,
        weights=stored,
        own_weights=own_bytes(stored, of_levels) if target.several else {},
        fits=tuple(fits),
    )


@dataclass(frozen=True)
class _LevelCode:
    """What defines the functions of the programs of each level in one module; `constants`: where those of a program are in the weights."""

    module: Module
    messages: Messages
    interface: Interface
    constants: Mapping[Program, Sequence[int]]
    budget: int | None

    def define(self, level: LevelPrograms, mark: str) -> LevelVariants:
        """Defines the functions of a level, in whose names there is a mark."""
        module, messages, variants = self.module, self.messages, list[Variant]()
        for k, known in enumerate(level.knowledge):
            limits = SizeLimits(known, entry_values(known, self.interface)) if known.varying() else None
            most = f"plan_{mark}{k}" if limits is None else None if limits.regions() is None else f"most_{mark}{k}"
            variant = Variant(f"plan_{mark}{k}", f"run_{mark}{k}", known.program.regions, most)
            own = most if limits is not None else None
            names, offsets = (variant.run, variant.plan, own), self.constants[known.program]
            define_plan(module, messages, variant.plan, self.interface, known, self.budget)
            if own is not None:
                define_plan(module, messages, own, self.interface, known, None, limits)
            define_run(module, messages, names, self.interface, known, offsets, self.budget)
            variants.append(variant)
        return LevelVariants(level.target, tuple(variants))


def arena_of(f: Function, target: ExportTarget, options: Options) -> ArenaFormulas:
    """The formulas of the memory that an exported function needs beside inputs and outputs. Raises what `export` raises."""
    described = interface(f, "model")
    return widest([arena_formulas(p.knowledge, described) for p in _analysed(f, target, options)])


def certificate_of(f: Function, name: str, target: ExportTarget, options: Options) -> Certificate:
    """What keeps the accesses of the kernels of a function in bounds that is exported for one level. Raises what `export` raises."""
    described = interface(f, name)
    (only,) = _analysed(f, target, options)
    return certify(described, target.name, only.knowledge)


def _analysed(f: Function, target: ExportTarget, options: Options) -> list[LevelPrograms]:
    """What is known of the programs of each level. Raises UnsupportedError for what has no code in C."""
    levels = []
    for level in target.levels:
        programs = list(compiled_programs(f, level, options))
        for p in programs:
            _refuse(p)
        levels.append(LevelPrograms(level, tuple(map(analyse, programs))))
    return levels


def compiled_programs(f: Function, target: ExportTarget, options: Options) -> Iterator[Program]:
    """The program for sizes of at least 1, and where that assumes anything the one for all sizes."""
    plain = replace(options, recorder=None, kernels="native", target="host", threads=1)
    compiler = Compiler(plain, Report(), threading.RLock(), None, folding(plain), target=target.processor)
    program, assumes = compiler.program(f)
    yield program
    if assumes:
        yield compiler.program(f, 0)[0]


def _kernels(parts: Sequence[_UnlinkedModel], target: ExportTarget) -> dict[ExportTarget, list[KernelText]]:
    """The kernels of each level, of all models of an object."""
    return {
        level: [k for p in parts for of_level in p.levels if of_level.target is level for k in of_level.kernels()]
        for level in target.levels
    }


_OF_LISTS = (Op.LIST, Op.BLOCK, Op.RETAIN, Op.RELEASE, Op.OWN, Op.LENGTH, Op.INSERT, Op.ERASE, Op.ELEMENT)
_OF_CALLS = (Op.CALL, Op.GIVE, Op.TAKEN)
_REASONS = {
    **dict.fromkeys(_OF_LISTS, "lists of tensors: they grow as elements decide, and would need an allocator"),
    **dict.fromkeys(_OF_CALLS, "a call of a function that cannot be inlined"),
}


def _refuse(program: Program) -> None:
    """Raises UnsupportedError for what has no code in C."""
    for op in untranslated(program):
        raise UnsupportedError(
            f"{program.name}: export does not support {_REASONS[op]} (instruction {op.name.lower()}); "
            "run the model with anyshape.compile, or rewrite that part of it with tensors"
        )
    for word, op, operands in program.instructions():
        if word not in program.notes:
            continue
        kernel = program.kernels[op.named(operands)["kernel"]]
        if entropy.SYMBOL in text_of(kernel).imports:
            nodes = ", ".join(map(named, program.notes[word].step.nodes))
            raise UnsupportedError(
                f"{nodes}: random numbers without a seed, and an exported model keeps no state; give it a seed"
            )


def _within(budget: int | None, formulas: ArenaFormulas) -> list[str]:
    """Says which sizes fit the budget, if there is one."""
    if budget is None:
        return []
    if formulas.grows:
        raise UnsupportedError(
            f"{formulas.interface.name}: elements decide how much memory a call needs, so no budget bounds it before; pass none, and give "
            "the call an arena of the bytes that it may have"
        )
    return demand_budget(formulas.sizes, formulas.interface, budget)


def _unknown(known: EntryKnowledge, m: Interface) -> list[str]:
    """Notes on dims of outputs that only a run tells."""
    notes = []
    for step in known.steps:
        if step.op is Op.OUTPUT:
            dims = step.operands[2]
            assert isinstance(dims, tuple)
            axes = [str(axis) for axis, k in enumerate(dims) if k not in known.known]
            if axes:
                notes.append(f"  {m.outputs[step['result']].name}: only a run tells dim {', '.join(axes)}.")
    return notes
