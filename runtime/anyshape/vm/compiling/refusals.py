"""What of a function cannot be compiled, or only in part before it runs: functions as arguments, ranks and types that are not known.

In: a function. Out: an answer, or an error that names the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable

from anyshape.errors import UnsupportedError
from anyshape.graph.callee import callees_of
from anyshape.graph.function import Function
from anyshape.graph.joining import unlike_ranks
from anyshape.graph.value import Node
from anyshape.types import FunctionType, ListType
from anyshape.vm.report.causes import Causes, named


def refuse_functions(f: Function) -> None:
    """Raises UnsupportedError if an argument or a result is a function."""
    for what, v in (*(("an input", p) for p in f.params), *(("a result", r) for r in f.results)):
        if isinstance(v.type, FunctionType):
            raise UnsupportedError(f"{f.name}: a function cannot be {what} of a program: {v.type}")


def undetermined(f: Function) -> bool:
    """Tests whether a value of a function has no known rank."""
    return any(p.type.shape is None for p in f.params) or any(node.is_open for node in f.nodes)


def unlike_or_open(nodes: Iterable[Node]) -> str:
    """Names what leaves a rank of a result unknown: branches of unlike ranks with their types, else the open nodes."""
    nodes = tuple(nodes)
    return unlike_ranks(nodes) or ", ".join(named(n) for n in nodes if n.is_open)


def refuse_dynamic(f: Function) -> None:
    """Checks the promise of `executor="graph"` that all types are static. Raises UnsupportedError with all that are not, and why."""
    dynamic = [f"input {p.name}: {p.type} is not static" for p in f.params if not p.type.is_static]
    dynamic += _dynamic(f)
    for callee in callees_of([f]):
        dynamic += [f"{callee.name}: {line}" for line in _dynamic(callee.defined())]
        if callee in callees_of([callee.defined()]):
            dynamic.append(f"{callee.name}: how deep its calls are nested is known at run time")
    if dynamic:
        hint = "; dims={...} puts numbers in the place of named dims" if f.symbols() else ""
        lines = "\n  ".join(dict.fromkeys(dynamic))
        raise UnsupportedError(f'executor="graph" takes a fully static program only{hint}:\n  {lines}')


def _dynamic(f: Function) -> list[str]:
    """Lists what is not static in a function, and why."""
    causes = Causes(f)
    lines = [causes.of_node(n) for n in causes.nodes if n.op.variant == "dyn"]
    values = [(n, v) for n in causes.nodes if n.op.variant != "dyn" for v in n.outputs]
    lines += [f"{named(n)}: {causes.of_type(v)}" for n, v in values if not v.type.is_static]
    lists = [n for n, v in values if isinstance(v.type, ListType)]
    lists = [n for n in lists if not any(v is not None and isinstance(v.type, ListType) for v in n.inputs)] or lists
    return lines + [f"{named(n)}: how many elements it comes to have is known at run time" for n in lists]
