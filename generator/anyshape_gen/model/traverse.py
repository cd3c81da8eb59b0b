"""Walks and rebuilds nodes of the rule language.

In: any node. Out: its children, all nodes below it, its free names, the functions it calls, or a rebuilt copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

from anyshape_gen.model.nodes import Call, Comprehension, Generator, If, Name, Node, Reduction, Statement, Unbacked

N = TypeVar("N", bound=Node)


_PARTS: dict[type[Node], tuple[str, ...]] = {}


def _parts(kind: type[Node]) -> tuple[str, ...]:
    """Names the fields of a kind of node in which nodes may be."""
    names = _PARTS.get(kind)
    if names is None:
        names = _PARTS[kind] = tuple(field.name for field in fields(kind) if field.name != "span")
    return names


def children(node: Node) -> list[Node]:
    """Lists the nodes directly below, in the order written."""
    below: list[Node] = []
    for name in _parts(type(node)):
        value = getattr(node, name)
        if isinstance(value, Node):
            below.append(value)
        elif isinstance(value, tuple):
            _gather(value, below)
    return below


def _gather(items: tuple[object, ...], below: list[Node]) -> None:
    for item in items:
        if isinstance(item, Node):
            below.append(item)
        elif isinstance(item, tuple):
            _gather(item, below)


def walk(node: Node) -> Iterator[Node]:
    """Yields the node and all nodes below it, each before those below it, in the order written."""
    left = [node]
    while left:
        following = left.pop()
        yield following
        left.extend(reversed(children(following)))


def walk_all(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        yield from walk(node)


def rebuild(node: N, change: Callable[[Any], Any]) -> N:
    """Rebuilds a node with every direct child replaced by `change(child)`."""
    updates = {}
    for name in _parts(type(node)):
        old = getattr(node, name)
        new = _rebuilt(old, change)
        if new is not old:
            updates[name] = new
    return replace(node, **updates) if updates else node


def _rebuilt(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, Node):
        return change(value)
    if isinstance(value, tuple):
        new = tuple(_rebuilt(item, change) for item in value)
        return value if all(a is b for a, b in zip(new, value)) else new
    return value


def bound_by(generators: tuple[Generator, ...]) -> set[str]:
    return {target.name for generator in generators for target in generator.targets}


def free_names(node: Node) -> set[str]:
    """Collects names that the node reads and no comprehension inside it binds."""
    if isinstance(node, Name):
        return {node.id}
    if isinstance(node, (Comprehension, Reduction)):
        names: set[str] = set()
        bound: set[str] = set()
        for generator in node.generators:
            names |= free_names(generator.domain) - bound
            bound |= bound_by((generator,))
        for part in (node.element, *node.conditions, *(value for _, value in getattr(node, "keywords", ()))):
            names |= free_names(part) - bound
        return names
    names = set()
    for child in children(node):
        names |= free_names(child)
    return names


def calls(nodes: Iterable[Node]) -> set[str]:
    """Collects names of functions that are called in the nodes."""
    names = set()
    for node in walk_all(nodes):
        if isinstance(node, Call):
            names.add(node.func)
        elif isinstance(node, Reduction):
            names.add(node.kind)
    return names


def reachable(roots: Iterable[Node], known: Mapping[str, N]) -> tuple[N, ...]:
    """Returns the functions that the roots call, directly or not; callees before callers."""
    done: dict[str, N] = {}
    open_: set[str] = set()

    def visit(name: str) -> None:
        if name not in known or name in done or name in open_:
            return
        open_.add(name)
        for callee in sorted(calls((known[name],))):
            visit(callee)
        done[name] = known[name]

    for name in sorted(calls(roots)):
        visit(name)
    return tuple(done.values())


def deciding(node: Node) -> Iterator[Name]:
    """Yields the names whose values decide a condition; a name of which only the length is read is left out, since ranks are static."""
    if isinstance(node, Name):
        yield node
    elif not (isinstance(node, Call) and node.func in ("len", "rank", "present", "is_int", "is_float")):
        for child in children(node):
            yield from deciding(child)


def unbacked_sizes(statements: tuple[Statement, ...]) -> dict[str, Unbacked]:
    """Collects the data-dependent sizes of a rule, which a procedure computes."""
    sizes: dict[str, Unbacked] = {}
    for s in statements:
        if isinstance(s, Unbacked):
            sizes[s.name] = s
        elif isinstance(s, If):
            sizes |= unbacked_sizes((*s.then, *s.other))
    return sizes
