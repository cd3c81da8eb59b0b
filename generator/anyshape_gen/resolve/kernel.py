"""Resolves kernels: extents of all index variables, every read matched to its tensor, equations in order.

In: an `OpSpec`, kinds of its names, shapes of its outputs. Out: `ResolvedKernel`, and findings where an extent
cannot be inferred or an index does not fit. Extents are propagated from outputs to their equations, from plain reads to
scratches, and from the reads of a scratch back to it, until nothing changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from anyshape_gen.model.analysis import (
    IndexVar,
    OutputShape,
    ResolvedEquation,
    ResolvedKernel,
    Role,
    ScratchTensor,
    UnbackedSize,
    ValueKind,
)
from anyshape_gen.model.body_nodes import Annotation, Equation, Kernel, Store, iterated
from anyshape_gen.model.build import call, item, multiply, vector
from anyshape_gen.model.nodes import (
    Assert,
    Call,
    Comprehension,
    Expr,
    Generator,
    Index,
    Int,
    Item,
    Name,
    Node,
    Over,
    Part,
    Reduction,
    Slice,
    Star,
)
from anyshape_gen.model.printer import to_text
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import Operand, OpSpec
from anyshape_gen.model.traverse import bound_by, free_names, walk_all
from anyshape_gen.resolve.element_dtypes import FRACTION, ElementDtypes
from anyshape_gen.resolve.kernel_order import in_order
from anyshape_gen.resolve.numbering import numbering, unnumbered
from anyshape_gen.resolve.recurrences import asserted_positive, with_starts
from anyshape_gen.resolve.slots import Many, Matcher, One, Slot, fixed_lengths, slots_of
from anyshape_gen.resolve.values import Scratch, ValueResolver, is_local
from anyshape_gen.resolve.variables import Vars

CONSTANTS = {"inf", "pi"}


class KernelResolver:
    """Resolves one kernel."""

    steps = False

    def __init__(
        self,
        spec: OpSpec,
        kernel: Kernel,
        *,
        kinds: Mapping[str, ValueKind],
        outputs: tuple[OutputShape, ...],
        findings: Findings,
        reading: tuple[Assert, ...] = (),
    ) -> None:
        self.spec = spec
        self.kinds = dict(kinds)
        self.findings = findings
        self.operands: dict[str, Operand] = {o.name: o for o in (*spec.inputs, *spec.outputs)}
        self.shapes = {output.name: output for output in outputs}
        self.counts = {o.name: o.signature.variadic.count for o in self.operands.values() if o.signature.variadic}
        self.lengths = fixed_lengths(spec)
        self.kernel = replace(kernel, asserts=(*reading, *kernel.asserts))
        self.positive = asserted_positive(spec.shape)
        self.sizes = {e.target.tensor for e in self.kernel.equations if e.target.items is None}
        for name in self.sizes:
            self.kinds[name] = ValueKind.INT
        self.scratch: dict[str, Scratch] = {}
        floats = dict.fromkeys((*CONSTANTS, *(n for n, kind in kinds.items() if kind == ValueKind.FLOAT)), FRACTION)
        truths = dict.fromkeys((n for n, kind in kinds.items() if kind == ValueKind.BOOL), "bool")
        self.dtypes = ElementDtypes(spec, {}, floats | truths)
        self.vars: list[Vars] = [self._variables(equation) for equation in self.kernel.equations]

    # --- variables
    # ------------------------------------------------------------------------------------------------------

    def _variables(self, equation: Equation) -> Vars:
        variables = Vars(bound=bound_by(equation.generators))
        target = equation.target
        known = {*self.kinds, *self.operands, *self.sizes, *CONSTANTS, *self._scratch_names(), *variables.bound}
        if isinstance(target.element, Name) and target.element.id not in known:
            variables.extents[target.element.id] = self.counts.get(target.tensor)
            variables.elements.add(target.element.id)
        for entry in target.items or ():
            inner = entry.value if isinstance(entry, Star) else entry
            new = free_names(inner) - known
            for name in [n.id for n in walk_all([inner]) if isinstance(n, Name) and n.id in new]:
                variables.extents.setdefault(name, None)
                if isinstance(entry, Star) and isinstance(inner, Name):
                    variables.runs.add(name)
        for node in _walk_items(equation.right, equation.target):
            if isinstance(node, Star) and isinstance(node.value, Name) and node.value.id in variables.extents:
                variables.runs.add(node.value.id)
        variables.extents |= dict.fromkeys(t.name for g in equation.generators for t in g.targets)
        variables.runs |= {t.name for g in equation.generators for t in g.targets if t.run}
        return variables

    def _scratch_names(self) -> set[str]:
        return {e.target.tensor for e in self.kernel.equations} - set(self.operands)

    # --- resolution
    # -------------------------------------------------------------------------------------------------------

    def resolve(self) -> ResolvedKernel | None:
        """Resolves the kernel; None (with findings) where that fails."""
        self._declare_scratch()
        for _ in range(len(self.kernel.equations) * 3 + 3):
            if not self._propagate():
                break
        before = len(self.findings.items)
        self._report_unknown()
        if len(self.findings.items) > before:
            return None
        pairs = zip(self.kernel.equations, self.vars)
        equations = [self._resolved(e, v) for e, v in pairs if e.target.items is not None]
        asserts = tuple(replace(node, cond=self._value(node.cond, Vars(), report=True)) for node in self.kernel.asserts)
        self._check_numbers(asserts)
        unbacked = tuple(
            self._unbacked(e, v) for e, v in zip(self.kernel.equations, self.vars) if e.target.items is None
        )
        if len(self.findings.items) > before:
            return None
        ordered = in_order(equations, self.findings, self.positive)
        for q in ordered:
            if q.target.tensor in self.scratch and q.target.tensor not in self.dtypes.held:
                self.dtypes.held[q.target.tensor] = self._dtype(q.target.tensor, q.value)
        scratch = tuple(self._tensor(name) for name in self.scratch)
        ordered, scratch = with_starts(ordered, scratch, self.findings)
        if len(self.findings.items) > before:
            return None
        return ResolvedKernel(scratch, unbacked, ordered, asserts)

    def _dtype(self, name: str, value: Expr) -> str:
        """The dtype of a tensor or variable that is first set to a resolved value."""
        dtype = self.dtypes.stored(value)
        if dtype is None:
            self.findings.add(value.span, f"the dtype of '{name}' is not known: write it, as in f32(0.0) or F(0.0)")
        return dtype or "f32"

    def _tensor(self, name: str) -> ScratchTensor:
        slots = self.scratch[name].slots or ()
        return ScratchTensor(name, self.dtypes.held[name], vector(tuple(slot_item(slot) for slot in slots)))

    def _declare_scratch(self) -> None:
        for equation in self.kernel.equations:
            target = equation.target
            if target.tensor in self.operands or target.items is None:
                continue
            places: list[tuple[bool, Expr | None]] = [(isinstance(i, Star), None) for i in target.items]
            known = self.scratch.setdefault(target.tensor, Scratch(places))
            note = equation.annotation
            if note is not None:
                self._annotate(known, target, note)
            length = _vector_length(equation.value)
            for k, entry in enumerate(target.items):
                if isinstance(entry, Slice) and length is not None:
                    known.places[k] = (False, known.places[k][1] or length)

    def _annotate(self, scratch: Scratch, target: Store, note: Annotation) -> None:
        """Sets the dtype and the extents of a scratch to those of its annotation; a run of fixed length may stand for single dims."""
        items = target.items or ()
        runs = [isinstance(i, Star) for i in items]
        extents: list[Item] = []
        for extent in note.extents:
            starred = runs[len(extents) : len(extents) + 1] == [True]
            extents += [extent] if starred else self._single_extents(extent)
        self.dtypes.held[target.tensor] = note.dtype
        if [isinstance(e, Star) for e in extents] == runs:
            scratch.places = [
                (run, e.value if isinstance(e, Star) else e)
                for run, e in zip(runs, extents)
                if not isinstance(e, Slice)
            ]
            return
        text = f"the annotation of '{target.tensor}' needs one extent for each index on the left, with a star where the index has one"
        self.findings.add(target.span, text)

    def _single_extents(self, extent: Item) -> list[Item]:
        """Returns an extent, or the dims of a run of fixed length one by one."""
        run = extent.value if isinstance(extent, Star) else None
        if isinstance(run, Name) and run.id in self.lengths:
            return [item(run, Int(k)) for k in range(self.lengths[run.id])]
        return [extent]

    def _propagate(self) -> bool:
        """Propagates extents over all equations once; True where an extent became known."""
        before = self._state()
        for equation, variables in zip(self.kernel.equations, self.vars):
            reader = self._reader(variables, report=False)
            reader.bind(equation.generators)
            if equation.target.items is not None:
                self._match_target(equation.target, reader)
            for part in (equation.value, *equation.filters):
                reader.expr(part)
            self._teach_scratch(equation.target, variables)
        return self._state() != before

    def _state(self) -> object:
        places = [(name, tuple(s.places)) for name, s in self.scratch.items()]
        return places, [dict(v.extents) for v in self.vars]

    def _teach_scratch(self, target: Store, variables: Vars) -> None:
        """Propagates extents between the variables of a left side and the dims of the scratch, both ways."""
        scratch = self.scratch.get(target.tensor)
        if scratch is None or target.items is None or len(target.items) != len(scratch.places):
            return
        for k, entry in enumerate(target.items):
            inner = entry.value if isinstance(entry, Star) else entry
            run, extent = scratch.places[k]
            if isinstance(inner, Slice):
                continue
            if isinstance(inner, Name) and inner.id in variables.extents and not is_local(variables.extents[inner.id]):
                extent = extent or variables.extents[inner.id]
                scratch.places[k] = (run, extent)
                variables.extents[inner.id] = variables.extents[inner.id] or extent

    def _report_unknown(self) -> None:
        for equation, variables in zip(self.kernel.equations, self.vars):
            for name, extent in variables.extents.items():
                if extent is None and name not in variables.bound:
                    text = f"the extent of '{name}' is not known: add an annotation, `{equation.target.tensor}[…]: T[…] = …`"
                    if equation.target.tensor in self.operands:
                        text = f"the extent of '{name}' is not known: nothing is indexed by it alone; write it, `(… for {name} in n)`"
                    self.findings.add(equation.target.span, text)
        for name, scratch in self.scratch.items():
            first = next(e for e in self.kernel.equations if e.target.tensor == name)
            unknown = [p for p, (_, extent) in zip(first.target.items or (), scratch.places) if extent is None]
            if any(isinstance(_bare(p), Slice) for p in unknown):
                text = f"the extent of ':' is not known: read '{name}' at a variable, or add an annotation, `{name}[:]: T[n] = …`"
                self.findings.add(first.target.span, text)

    # --- reads and left sides
    # -----------------------------------------------------------------------------------------------

    def slots(self, tensor: str, element: Expr | None) -> tuple[Slot, ...] | None:
        if tensor in self.operands:
            return slots_of(self.operands[tensor], self.kinds, self.counts, element)
        scratch = self.scratch.get(tensor)
        return scratch.slots if scratch else None

    def _shape(self, tensor: str, element: Expr | None) -> Expr:
        if tensor in self.shapes:
            return self.shapes[tensor].shape
        base = Name(tensor)
        return call("shape", base if element is None else Index(base, (element,)))

    def matcher(self, tensor: str, element: Expr | None, variables: Vars) -> Matcher:
        return Matcher(self._shape(tensor, element), variables, self.lengths)

    def _reader(self, variables: Vars, report: bool) -> ValueResolver:
        return ValueResolver(self, variables, dict(self.kinds), report)

    def _match_target(self, target: Store, reader: ValueResolver) -> tuple[Part, ...]:
        if target.items is None:
            return ()
        items = tuple(reader.item(i) for i in target.items)
        slots = self.slots(target.tensor, target.element)
        if slots is None:
            return ()
        parts = self.matcher(target.tensor, target.element, reader.variables).match(items, slots)
        if isinstance(parts, str):
            if reader.report:
                self.findings.add(target.span, f"the index of '{target.tensor}' does not fit: {parts}")
            return ()
        return parts

    def _value(self, expr: Expr, variables: Vars, report: bool) -> Expr:
        return self._reader(variables, report).expr(expr)

    def _resolved(self, equation: Equation, variables: Vars) -> ResolvedEquation:
        reader = self._reader(variables, report=True)
        generators = reader.bind(equation.generators)
        parts = self._match_target(equation.target, reader)
        value, filters = reader.expr(equation.value), tuple(map(reader.expr, equation.filters))
        within, generators = reader.ragged(generators)
        self._check_generators(generators)
        self._check_runs(equation, variables)
        index_variables = tuple(
            IndexVar(name, name in variables.runs, extent, Role.ELEMENT if name in variables.elements else Role.LOOP)
            for name, extent in variables.extents.items()
            if extent is not None and name not in variables.bound
        )
        own = tuple(IndexVar(g.targets[0].name, False, g.domain) for g in generators if g.over is Over.EXTENT)
        filters = (*within, *filters)
        right = iterated(value, tuple(generators), filters)
        numbered = numbering((*index_variables, *own), parts, right, self.counts)
        elements = {v.name for v in numbered if v.role is Role.ELEMENT}
        self._check_numbers([right], elements)
        self._check_order(generators, elements)
        return ResolvedEquation(
            target=equation.target,
            parts=parts,
            vars=tuple(v for v in numbered if v.name not in variables.bound or v.name in elements),
            op="set" if equation.generators and equation.op == "=" else equation.op,
            value=value,
            conditions=equation.conditions,
            generators=tuple(g for g in generators if g.targets[0].name not in elements),
            filters=filters,
            span=equation.span,
        )

    def _check_runs(self, equation: Equation, variables: Vars) -> None:
        """Checks that a run of an intermediate tensor, whose dims are those of the first tensor that is read by it, is no run of other
        dims too: either may be the longer one, to which the other broadcasts."""
        name = equation.target.tensor
        if name in self.operands or any(e.annotation for e in self.kernel.equations if e.target.tensor == name):
            return
        own = {i.value.id for i in equation.target.items or () if isinstance(i, Star) and isinstance(i.value, Name)}
        for run in sorted(own & variables.runs):
            several = list(dict.fromkeys(map(to_text, variables.read.get(run, ()))))
            if len(several) > 1:
                dims = " and ".join(several)
                text = f"'*{run}' goes over the dims {dims}, and either may broadcast: write those of '{name}', `{name}[…]: T[…] = …`"
                self.findings.add(equation.target.span, text)

    def _check_generators(self, generators: Iterable[Generator]) -> None:
        for g in generators:
            if g.over is Over.ITEMS:
                text = "a variable of an update goes over a dim, a run or a range: `for k in n`, `for *j in d`, `for k in range(a, b)`"
                self.findings.add(g.span, text)

    def _check_order(self, generators: Sequence[Generator], elements: Collection[str]) -> None:
        """Checks that variables of an update that select tensors are the outermost: each of their values has an equation of its own."""
        names = [g.targets[0].name for g in generators]
        for g, before, name in zip(generators[1:], names, names[1:]):
            if name in elements and before not in elements:
                text = f"'{name}' selects a tensor, and so comes before '{before}': `for {name} in … for {before} in …`"
                self.findings.add(g.span, text)

    def _check_numbers(self, nodes: Iterable[Node], numbers: Collection[str] = ()) -> None:
        for node in nodes:
            for span, text in unnumbered(node, {*numbers, *self.kinds}, self.counts):
                self.findings.add(span, text)

    def _unbacked(self, equation: Equation, variables: Vars) -> UnbackedSize:
        value = self._value(equation.value, variables, report=True)
        self._check_numbers([value])
        if equation.conditions:
            written = f"`{equation.target.tensor} = count(… if … else … for …)`"
            self.findings.add(
                equation.span, f"a size is counted in one way for all calls: put the condition inside, {written}"
            )
        high: Expr = Int(0)
        if isinstance(equation.value, Reduction) and equation.value.kind == "count":
            domains = [call("prod", g.domain) if g.targets[0].run else g.domain for g in equation.value.generators]
            high = multiply(tuple(domains))
        else:
            text = f"a data-dependent size of a kernel is a count: `{equation.target.tensor} = count(… for …)`"
            self.findings.add(equation.span, text)
        return UnbackedSize(equation.target.tensor, value, Int(0), high, span=equation.span)


def _vector_length(value: Expr) -> Expr | None:
    """Returns the length of a vector on the right side where it is one item for each value of a variable."""
    if isinstance(value, Call) and value.func == "argsort" and value.args:
        inner = value.args[0]
        return _vector_length(inner) if isinstance(inner, Comprehension) else None
    if isinstance(value, Comprehension) and not value.conditions and len(value.generators) == 1:
        (g,) = value.generators
        return g.domain if not g.targets[0].run and not isinstance(g.domain, Call) else None
    return None


def slot_item(slot: Slot) -> Item:
    if isinstance(slot, Many):
        return Star(slot.extents)
    assert isinstance(slot, One)
    return slot.extent


def _bare(entry: Item) -> Item:
    return entry.value if isinstance(entry, Star) else entry


def _walk_items(*nodes: Node) -> list[Node]:
    return list(walk_all(nodes))
