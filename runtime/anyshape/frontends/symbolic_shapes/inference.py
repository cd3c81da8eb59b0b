"""Infers the symbolic shapes of a model: types of its values over dims that have names, and what must hold for the model to be valid.

In: a model, a function or an exported program. Out: `Shapes`. Types, facts and checks are those of `compile`, of a function whose results
are all values of the graph. Here each size gets a name that people can use in questions: the one in the file, `x.shape[1]` for an unnamed
dim of an input, `s[0]` for an element of one, and `places.shape[1]` for a size that data decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from operator import attrgetter
from typing import Any

from anyshape.dims import Dim, Size, anonymous_names, bounds, free_symbols, substitute, symbol
from anyshape.errors import ArgumentError
from anyshape.frontends.onnx.dtypes import declared_dims
from anyshape.frontends.onnx.inputs import DimBinding
from anyshape.frontends.onnx.loading import read_source
from anyshape.frontends.onnx.reader import Source
from anyshape.frontends.symbolic_shapes.bodies import bodies, named_type
from anyshape.frontends.symbolic_shapes.result import Condition, DataSize, NamedDim, NamedType, Shapes
from anyshape.frontends.symbolic_shapes.subject import Subject, of_function, of_model, of_program
from anyshape.graph.function import Function
from anyshape.graph.origins import Names, origins
from anyshape.graph.text import is_anonymous
from anyshape.graph.unused_names import unused
from anyshape.graph.value import Value
from anyshape.public import edge
from anyshape.rules import Check
from anyshape.vm.executable.entry import torch_kind
from anyshape.vm.report.causes import Causes, symbols_of


@edge
def shapes(
    model: Any, dims: Mapping[str, DimBinding] | None = None, *, repair: bool = False, notes: list[str] | None = None
) -> Shapes:
    """Infers the shapes of an ONNX model (a path, its bytes, an onnx.ModelProto or what has one as `model_proto`), of a Function, or of a
    `torch.export.ExportedProgram`.

    `dims` binds or bounds named dims of the inputs, {"batch": 8, "length": (1, 512)}. `repair`: what the standard refuses is taken for what
    it most likely means; `notes` receives these changes. Raises a subclass of AnyshapeError for a model that is damaged, and ShapeError or
    DtypeError for one that fails for all inputs. Of what a node of ONNX gives that is not supported, the type is known that ONNX's
    inference says; an exported program is refused, with all that is not supported.
    """
    of_torch = torch_kind(model)
    if of_torch == "Module":
        raise ArgumentError(
            "shapes takes an exported program: pass torch.export.export(module, example, dynamic_shapes=…)"
        )
    if of_torch is not None or isinstance(model, Function):
        if repair:
            raise ArgumentError("shapes: repair is for ONNX models")
        subject = of_function(model, dims) if isinstance(model, Function) else of_program(model, dims)
        return _Reading(subject).shapes()
    return shapes_of(read_source(model, dims, repair, notes if notes is not None else []), dims)


def shapes_of(read: Source, dims: Mapping[str, DimBinding] | None) -> Shapes:
    """Infers the shapes of a model that is parsed."""
    return _Reading(of_model(read, dims)).shapes()


class _Reading:
    """Reads the shapes of one subject off its optimised function."""

    def __init__(self, known: Subject) -> None:
        self.known, self.f = known, known.function
        self.params = [p for p in self.f.params if p.name in known.inputs]
        self.opaque = {p.name: p for p in self.f.params if p.name not in known.inputs}
        values = [(p.name, p) for p in self.f.params]
        values += [(name, v) for name, v in known.values.items() if v is not None and not v.is_param]
        symbols = _distinct(symbols_of(v) for _, v in values)
        checked = _distinct(free_symbols(c.cond) for c, _ in _checks(self.f))
        self.places, self.fallback = origins(values), Names(self.f)
        self.taken = {s.name for s in (*symbols, *checked) if not is_anonymous(s)}
        self.shown = {s: self._shown(s) for s in symbols}
        self.types = {name: named_type(name, v, self.shown) for name, v in known.values.items()}
        self.bodies = tuple(bodies(known.model, self.shown, self.types)) if known.model is not None else ()
        self.of_bodies = {s: size.symbol for b in self.bodies for s, size in b.sizes.items()}
        self.shown.update(self.of_bodies)
        self.shown.update((s, self._shown(s)) for s in checked if s not in self.shown)

    def shapes(self) -> Shapes:
        sizes = [(n, f"{p.name}.shape[{k}]") for p in self.params for k, n in enumerate(declared_dims(p.type) or ())]
        elements = [(e, f"{p.name}[{k}]" if p.type.rank else p.name) for p in self.params for k, e in self._elements(p)]
        entry: dict[Dim, NamedDim] = {}
        for n, place in (*sizes, *elements):
            if isinstance(n, Dim):
                for s in free_symbols(n):
                    entry.setdefault(s, NamedDim(self.shown[s], ()))
                if n.is_symbol:
                    entry[n] = NamedDim(self.shown[n], (*entry[n].places, place))
        conditions = tuple(self._conditions())
        return Shapes(
            name=self.known.name,
            values=self.types,
            bodies={b.place: b.values for b in self.bodies},
            inputs=tuple(p.name for p in self.params),
            outputs=tuple(self.known.outputs),
            dims={d.name: d for d in entry.values()},
            data={d.name: d for d in self._decided_by_data(set(entry), conditions)},
            body_sizes={size.name: size for b in self.bodies for size in b.sizes.values()},
            conditions=conditions,
            limits=dict(self._limits()),
            unsupported={name: self._unsupported(name) for name, t in self.types.items() if self._is_opaque(name, t)},
        )

    def _shown(self, s: Dim) -> Dim:
        """Makes the symbol that stands for one of the function: of the name in the file, or of where it stands."""
        name = unused(self.places.get(s) or self.fallback[s], self.taken) if is_anonymous(s) else s.name
        return symbol(name, *bounds(s))

    def _elements(self, p: Value) -> Iterator[tuple[int, Any]]:
        """Elements of an input that a type or a condition mentions."""
        return ((k, e) for k, e in enumerate(p.contents or ()) if e in self.shown)

    def _conditions(self) -> Iterator[Condition]:
        for c, is_inside in _checks(self.f):
            with anonymous_names():
                said = "".join(p if isinstance(p, str) else str(substitute(p, self.shown)) for p in c.parts)
            cond = substitute(c.cond, self.shown)
            if not isinstance(cond, bool):
                yield Condition(cond=cond, node=c.where, op=c.op, message=said, is_inside=is_inside)

    def _limits(self) -> Iterator[tuple[Dim, Size]]:
        """Upper bounds of sizes that data decides."""
        for node in self.f.nodes:
            for s, high in (node.bound.upper_bounds if node.bound is not None else {}).items():
                if s in self.shown and free_symbols(high) <= self.shown.keys():
                    yield self.shown[s], substitute(high, self.shown)

    def _decided_by_data(self, entry: set[Dim], conditions: tuple[Condition, ...]) -> Iterator[DataSize]:
        types = (*self.types.values(), *(t for b in self.bodies for t in b.values.values()))
        used = {s for t in types if t.type is not None for s in t.type.symbols()}
        used |= {s for c in conditions for s in free_symbols(c.cond)}
        causes = Causes(self.f)
        for s, name in self.shown.items():
            if s not in entry and s not in self.of_bodies and name in used:
                yield DataSize(name, causes.of_dim(s))

    def _is_opaque(self, name: str, t: NamedType) -> bool:
        return name in self.opaque or t.type is None

    def _unsupported(self, name: str) -> str:
        nodes = self.known.model.nodes if self.known.model is not None else ()
        node = next((n for n in nodes if name in n.output), None)
        return "its element type" if node is None else f"{node.op_type} {node.name!r}".removesuffix(" ''")


def _checks(f: Function) -> Iterator[tuple[Check, bool]]:
    """The checks of a function in the order in which a run makes them, and whether each is within a branch or a loop's body."""
    yield from ((c, False) for c in f.checks)
    for node in f.nodes:
        yield from ((c, False) for c in node.checks)
        for region in node.regions:
            yield from ((c, True) for c, _ in _checks(region))


def _distinct(symbols: Iterable[Set[Dim]]) -> list[Dim]:
    """Lists symbols in order of appearance, those of one set by name."""
    return list(dict.fromkeys(s for some in symbols for s in sorted(some, key=attrgetter("name"))))
