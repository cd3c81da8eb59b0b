"""Function: parameters, results and, reached from the results, the nodes; an immutable SSA graph."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from functools import cached_property
from operator import attrgetter

from anyshape.dims import Dim, Size, free_symbols
from anyshape.errors import ArgumentError, VerifyError
from anyshape.graph.tuples import Form
from anyshape.graph.value import Node, Value
from anyshape.public import public
from anyshape.rules import Check
from anyshape.types import ListType

UNNAMED = "main"
"""The name of a function for which callers choose none"""


class Function:
    """A graph. `params` are its inputs in order, `results` its outputs; `result_names` are what callers see.

    `checks` are conditions on dims and elements of the parameters alone, which the types of nodes rely on, and which hold only if the entry
    checks them.
    `form`: which results are members of tuples to callers (`tuples`), None if none is. `failure`, of a region: why it cannot run; it has
    no results then.
    """

    @public
    def __init__(
        self,
        params: Sequence[Value],
        results: Sequence[Value],
        name: str = UNNAMED,
        result_names: Sequence[str] | None = None,
        *,
        checks: Sequence[Check] = (),
        failure: str = "",
        form: Form = None,
    ) -> None:
        self.params, self.results, self.name = tuple(params), tuple(results), name
        self.checks, self.failure = tuple(checks), failure
        self.form = form
        self.result_names = (
            tuple(result_names) if result_names is not None else tuple(f"output{k}" for k in range(len(self.results)))
        )
        unknown = sorted({v.name or "?" for v in self.free_values()} - {p.name or "?" for p in self.params})
        if unknown:
            raise ArgumentError(f"the results need {', '.join(unknown)}, which the function does not take as an input")
        names = [p.name for p in self.params]
        if len(set(names)) < len(names):
            twice = sorted({n for n in names if names.count(n) > 1})
            raise ArgumentError(f"two inputs have the name {', '.join(twice)}; input names must be distinct")

    def whole(self) -> Function:
        """Returns this function; a saved one is read when this is called."""
        return self

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes in topological order; the same graph always gives the same order. Nodes nothing needs are not among them."""
        return topological(self.results)

    def place_of(self, s: Dim) -> tuple[int, int] | None:
        """Returns the first parameter and axis that are the symbol itself; None if there is none."""
        tensors = ((k, p.type) for k, p in enumerate(self.params) if not isinstance(p.type, ListType))
        return next(((k, axis) for k, t in tensors for axis, n in enumerate(t.shape or ()) if n == s), None)

    def free_values(self) -> set[Value]:
        """Parameters that the results need."""
        values = {v for v in self.results if v.is_param}
        for node in self.nodes:
            values |= {v for v in node.inputs if v is not None and v.is_param}
        return values

    @cached_property
    def constants(self) -> tuple[Value, ...]:
        """The constants that nodes and results use, in order of first use."""
        values: dict[Value, None] = {}
        for node in self.nodes:
            for v in node.inputs:
                if v is not None and v.is_constant:
                    values[v] = None
        for v in self.results:
            if v.is_constant:
                values[v] = None
        return tuple(values)

    def all_nodes(self) -> Iterator[Node]:
        """All nodes, those of regions included."""
        for node in self.nodes:
            yield node
            for region in node.regions:
                yield from region.all_nodes()

    def symbols(self) -> list[Dim]:
        """Symbols of the parameters' shapes, in order of appearance: dim by dim, those of one dim by name."""
        symbols: dict[Dim, None] = {}
        for p in self.params:
            for n in p.type.shape or ():
                for s in sorted(free_symbols(n), key=attrgetter("name")):
                    symbols[s] = None
        return list(symbols)

    def specialize(self, **dims: Size | tuple[int, int | None]) -> Function:
        """Returns this function for certain sizes: each a number, or (least, most), in place of a symbol of the inputs; all types are
        inferred anew. Raises ArgumentError for a name that no input has, ShapeError for a size that cannot be."""
        from anyshape.graph.retype import constrained

        return constrained(self, dims)

    def __str__(self) -> str:
        from anyshape.graph.text import print_function

        return print_function(self)


def topological(results: Iterable[Value], without: Set[Node] = frozenset(), since: int = 0) -> tuple[Node, ...]:
    """Producers before consumers, without recursion, so that depth does not matter; nodes in `without` or made
    before `since`, and what only they need, are left out. Raises VerifyError on a cycle."""
    order: list[Node] = []
    over: dict[Node, bool] = {}
    """whether all nodes below a visited node were visited, too"""
    stack: list[tuple[Node, Iterator[Value | None]]] = []
    for result in results:
        top = result.node
        if top is not None and top not in over and top not in without and top.serial >= since:
            stack.append((top, iter(top.inputs)))
            over[top] = False
        while stack:
            node, inputs = stack[-1]
            for value in inputs:
                below = value.node if value is not None else None
                if below is None or below.serial < since or below in without:
                    continue
                known = over.get(below)
                if known is False:
                    raise VerifyError(f"the graph has a cycle through {below}")
                if known is None:
                    over[below] = False
                    stack.append((below, iter(below.inputs)))
                    break
            else:
                stack.pop()
                over[node] = True
                order.append(node)
    return tuple(order)
