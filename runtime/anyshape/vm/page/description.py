"""What a compile makes of a function, as plain data: steps with their ops and equations, values, dims with their origins, memory.

In: a `Described`. Out: dicts and lists for JSON. Values, dims and symbols stand once, and are numbers elsewhere; sizes are entries of the
table that `SizeWriter` makes, since expressions share parts.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anyshape.dims import Cond, Dim, Size, SizeWriter, bounds, free_symbols
from anyshape.graph.function import Function
from anyshape.graph.text import spell_attribute, value_names
from anyshape.graph.value import Node, Value
from anyshape.passes.steps import KernelStep, RegionStep, Schedule, ScheduleStep, TableStep, ViewStep, step_name
from anyshape.types import FunctionType, ListType
from anyshape.vm.compiling.plans import Described
from anyshape.vm.page.dims import DimOrigin, DimOrigins
from anyshape.vm.page.layers import Place, places
from anyshape.vm.program.invocation import Invocation, equations_by_node
from anyshape.vm.program.memory_plan import Area, Inside, MemoryPlan
from anyshape.vm.program.table import Program
from anyshape.vm.report.causes import Causes
from anyshape.vm.report.summary import decides_a_size

MOST_EQUATIONS, LONGEST_EQUATION = 40, 400
"""Equations of a node, and characters of one, that are shown."""
MOST_CONDITIONS = 200
"""Conditions on sizes that are shown."""

Row = dict[str, Any]


def description(described: Described) -> Row:
    """Describes a function: `graphs` begin with the function's own; those of regions and of functions that it calls follow."""
    tables = _PageTables()
    if described.parts:
        for schedule, program in described.parts:
            _FunctionRows(tables, schedule.function, program).add(schedule)
    else:
        _FunctionRows(tables, described.function, None).add_open()
    return {
        "sizes": tables.sizes.table,
        "symbols": tables.symbols,
        "dims": tables.dims,
        "values": tables.values,
        "graphs": tables.graphs,
        "conditions": tables.conditions[:MOST_CONDITIONS],
        "weights": sum(c.nbytes for _, p in described.parts for c in p.constants),
    }


@dataclass(eq=False, kw_only=True)
class _PageTables:
    """Rows that all parts share."""

    sizes: SizeWriter = field(default_factory=SizeWriter)
    symbols: list[Row] = field(default_factory=list)
    dims: list[Row] = field(default_factory=list)
    values: list[Row] = field(default_factory=list)
    graphs: list[Row] = field(default_factory=list)
    conditions: list[Row] = field(default_factory=list)
    number_of_dim: dict[Size, int] = field(default_factory=dict)
    seen: set[Dim | Cond] = field(default_factory=set)


class _FunctionRows:
    """The rows of one function and its regions."""

    def __init__(self, tables: _PageTables, f: Function, program: Program | None) -> None:
        self.tables, self.program, self.function = tables, program, f
        self.causes = Causes(f)
        self.origins = DimOrigins(f, self.causes)
        self.entry = set(f.symbols())
        self.numbers: dict[Value, int] = {}
        notes = program.notes.values() if program is not None else ()
        self.invocations: Mapping[KernelStep, Invocation] = {i.step: i for i in notes}

    def add(self, schedule: Schedule) -> None:
        graph = self._graph(self.function.name, schedule.function, schedule.steps)
        assert self.program is not None
        if self.program.memory is not None:
            graph["memory"] = [*self._memory(self.function.name, self.program.memory, _times(graph))]
        self._conditions()

    def add_open(self) -> None:
        """Adds a function with values of unknown rank: each node is a step, since nothing is fused before the ranks are known."""
        self._graph(self.function.name, self.function, self.function.nodes)

    # --- sizes

    def size(self, e: Size) -> Any:
        """A size as data, its symbols being listed."""
        return self._recorded(self.origins.named(e))

    def dim(self, e: Size) -> int:
        """The number of a dim's row."""
        return self._row_of(self.origins.named(e))

    def _recorded(self, named: Size | Cond) -> Any:
        for s in sorted(free_symbols(named), key=lambda s: (s.name, s.uid)):
            if s not in self.tables.seen:
                self.tables.seen.add(s)
                low, high = bounds(s)
                row: Row = {"name": s.name, "dim": self._row_of(s), "low": low, "high": high}
                self.tables.symbols.append({**row, "origin": self.origins.of(s), "cause": self.origins.cause(s)})
        return self.tables.sizes(named)

    def _row_of(self, named: Size) -> int:
        number = self.tables.number_of_dim.get(named)
        if number is None:
            number = self.tables.number_of_dim[named] = len(self.tables.dims)
            row: Row = {"text": str(named), "origin": self.origins.of(named)}
            self.tables.dims.append(row)
            row["size"] = self._recorded(named)
            row["symbols"] = sorted(self._row_of(s) for s in free_symbols(named) if s is not named)
        return number

    def _conditions(self) -> None:
        """Adds what the model demands of sizes of inputs."""
        nodes = self.function.nodes
        for c in (*self.function.checks, *(c for n in nodes for c in n.checks)):
            cond = self.origins.named_condition(c.cond)
            if isinstance(cond, Cond) and cond not in self.tables.seen and free_symbols(c.cond) <= self.entry:
                self.tables.seen.add(cond)
                self.tables.conditions.append({"condition": self._recorded(cond), "text": c.spelled(cond)})

    # --- values

    def value(self, v: Value, name: str = "") -> int:
        number = self.numbers.get(v)
        if number is None:
            number = self.numbers[v] = len(self.tables.values)
            row: Row = {"name": name or v.name, "constant": v.is_constant}
            self.tables.values.append(row)
            t = v.type
            if isinstance(t, ListType | FunctionType) or t.shape is None:
                row |= {"dtype": str(t), "dims": None, "bytes": 0}
            else:
                row |= {"dtype": str(t.dtype), "dims": [self.dim(n) for n in t.shape]}
                row["bytes"] = self.size(t.count() * t.dtype.itemsize)
        return number

    # --- graphs

    def _graph(self, title: str, f: Function, steps: Sequence[ScheduleStep | Node]) -> Row:
        """Adds a graph; those of regions follow it."""
        number = len(self.tables.graphs)
        graph: Row = {"number": number, "title": title}
        self.tables.graphs.append(graph)
        for v, name in value_names(f).items():
            self.value(v, name if v.node is not None else name.removeprefix("%"))
        graph["inputs"] = [self.value(p) for p in f.params]
        graph["steps"] = [self._step(s) for s in steps]
        graph["results"] = [[n, self.value(v)] for n, v in zip(f.result_names, f.results)]
        graph["places"], graph["brief"] = _layouts(graph)
        return graph

    def _step(self, step: ScheduleStep | Node) -> Row:
        if isinstance(step, KernelStep):
            return self._kernel(step)
        if isinstance(step, ViewStep):
            return self._row("view", step.node.op.name, [step.node], [step.input], [step.output])
        node = step if isinstance(step, Node) else step.node
        kind = "control" if node.regions else "table" if isinstance(step, TableStep) else "node"
        row = self._row(kind, node.op.full_name, [node], node.inputs, node.outputs)
        if isinstance(step, Node) and step.is_open:
            row["open"] = f"it is compiled in a call: {self.causes.of_type(step.outputs[0])}"
        bodies: list[tuple[Function, Sequence[ScheduleStep | Node]]] = [(r, r.nodes) for r in node.regions]
        if isinstance(step, RegionStep):
            bodies = [(b.function, b.steps) for b in step.bodies]
        row["bodies"] = [self._graph(f"{node.op.name}: {f.name}", f, steps)["number"] for f, steps in bodies]
        return row

    def _kernel(self, step: KernelStep) -> Row:
        row = self._row("kernel", step_name(step), step.nodes, step.inputs, step.outputs)
        for node, equations in zip(row["nodes"], equations_by_node(step).values()):
            node["equations"] = _shortened(map(str, equations))
        row["joined"] = list(step.joined_by)
        row["apart"] = [[self.value(v), why] for v, why in step.apart_from.items()]
        invocation = self.invocations.get(step)
        if invocation is not None:
            row |= {"operations": self.size(invocation.operations), "moved": self.size(invocation.moved)}
        elif self.program is not None:
            row["kind"] = "known"
        return row

    def _row(
        self, kind: str, title: str, nodes: Iterable[Node], reads: Iterable[Value | None], makes: Iterable[Value]
    ) -> Row:
        return {
            "kind": kind,
            "title": title,
            "nodes": [self._node(n) for n in nodes],
            "reads": [self.value(v) for v in reads if v is not None],
            "makes": [self.value(v) for v in makes],
        }

    def _node(self, node: Node) -> Row:
        row: Row = {"op": node.op.full_name, "source": node.source, "spec": node.op.source}
        row["attributes"] = [f"{k}={_shortened([spell_attribute(v)])[0]}" for k, v in node.attrs.items()]
        if node.op.variant == "dyn" and decides_a_size(node, self.entry):
            row["dynamic"] = self.causes.of_node(node)
        return row

    # --- memory

    def _memory(self, title: str, plan: MemoryPlan, results: Sequence[Row]) -> Iterator[Row]:
        """The plan of a program and those of bodies within it."""
        yield {
            "title": title,
            "steps": list(plan.steps),
            "areas": [self._area(a) for a in plan.areas],
            "results": results,
            "held": [],
        }
        for i in plan.inside:
            yield from self._inside(i)

    def _inside(self, i: Inside) -> Iterator[Row]:
        outer, *inner = self._memory(i.title, i.plan, ())
        held = [{"what": h.what, "bytes": self._recorded(h.bytes), "collected": h.collected} for h in i.held]
        yield {**outer, "held": held}
        yield from inner

    def _bytes(self, n: Size) -> Row:
        """A size of the plan, in which symbols have their names already."""
        number = self._row_of(n)
        return {"bytes": self.tables.dims[number]["size"], "dim": number}

    def _area(self, a: Area) -> Row:
        return {
            "region": a.region,
            "tenants": [
                {**self._bytes(t.bytes), "start": t.start, "end": t.end, "what": what}
                for t, what in zip(a.tenants, a.contents, strict=True)
            ],
            "order": a.layout.order,
            "below": a.layout.below,
            "top": a.layout.top,
        }


WITHOUT_CODE = ("view", "known")
"""Kinds of steps that cost a call nothing."""


def _layouts(graph: Row) -> tuple[list[Place], list[Place | None]]:
    """Places of the inputs and then of the steps; of all, and of those with code alone, which are linked past views."""
    boxes = [*({"kind": "entry", "reads": [], "makes": [v]} for v in graph["inputs"]), *graph["steps"]]
    every = places(_sources(boxes))
    at = iter(places(_sources(boxes, WITHOUT_CODE)))
    return every, [next(at) if b["kind"] not in WITHOUT_CODE else None for b in boxes]


def _sources(boxes: Sequence[Row], without: Container[str] = ()) -> list[list[int]]:
    """The boxes that each one reads from, numbered without those of some kinds: past a view is what it is a view of."""
    maker: dict[int, int] = {}
    sources: list[list[int]] = []
    for b in boxes:
        if b["kind"] not in without:
            maker.update(dict.fromkeys(b["makes"], len(sources)))
            sources.append(sorted({maker[v] for v in b["reads"] if v in maker and v not in b["makes"]}))
        elif b["kind"] == "view" and b["reads"][0] in maker:
            maker.update(dict.fromkeys(b["makes"], maker[b["reads"][0]]))
    return sources


def _times(graph: Row) -> list[Row]:
    """The results of a graph, each with the step that makes it."""
    maker = {v: k for k, s in enumerate(graph["steps"]) for v in s["makes"]}
    return [{"name": name, "value": v, "start": maker.get(v, 0)} for name, v in graph["results"]]


def _shortened(texts: Iterable[str]) -> list[str]:
    lines = [t if len(t) <= LONGEST_EQUATION else f"{t[:LONGEST_EQUATION]}…" for t in texts]
    more = len(lines) - MOST_EQUATIONS
    return lines if more <= 0 else [*lines[:MOST_EQUATIONS], f"… and {more} more"]


def origins() -> Mapping[str, str]:
    """What each origin of a dim means, for a legend."""
    return {
        DimOrigin.INPUT: "a dim of an input",
        DimOrigin.DERIVED: "computed of dims of inputs",
        DimOrigin.DATA: "decided by data while it runs",
        DimOrigin.CONSTANT: "a number",
        DimOrigin.MACHINE: "a property of the machine",
    }
