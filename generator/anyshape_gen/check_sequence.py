"""Sequences: what an op may say of tensors that may come as a list, which is gone through element by element.

In: an `OpSpec` with a `seq` input, then its resolved kernel. Out: findings about what cannot be said of one element at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anyshape_gen.analysis_model import ResolvedEquation, ResolvedKernel, Role
from anyshape_gen.model import AtAxis, Operand, OpSpec, Ragged, Run
from anyshape_gen.nodes import Call, Index, Name, Node, Offset, TensorRead
from anyshape_gen.source import Findings
from anyshape_gen.traverse import children, walk

BY_ELEMENT = "write the elements to an output, `y[v, *i] = xs[v][*i]`, and read it in another op"


def check_sequences(spec: OpSpec, findings: Findings) -> None:
    """The signature and the rule."""
    for o in spec.outputs:
        if o.signature.sequence:
            findings.add(o.span, "an output is no sequence; `T[…] for v in count` makes several outputs")
    listed = [o for o in spec.inputs if o.signature.sequence]
    for o in listed:
        _signature(spec, o, findings)
    if listed and spec.kernel is None:
        findings.add(listed[0].span, "an op that takes a sequence is stated by a `kernel:`")
    nodes: list[Node] = [*spec.shape, *spec.params, *spec.outputs]
    nodes += [o for o in spec.inputs if not o.signature.sequence]
    _same_in_all(spec, nodes, (), findings)


def _signature(spec: OpSpec, o: Operand, findings: Findings) -> None:
    signature = o.signature
    if signature.optional or signature.default is not None:
        findings.add(o.span, f"the sequence '{o.name}' cannot be absent")
    for other in (*spec.inputs, *spec.outputs):
        if other is not o and other.signature.variadic is not None:
            findings.add(other.span, f"beside the sequence '{o.name}' nothing else can be several tensors")
    for piece in signature.pieces:
        inner = piece.dim if isinstance(piece, AtAxis) else piece
        if isinstance(inner, Run) and inner.element is not None:
            text = (
                "the elements of a sequence have one rank; dims that differ from element to element are named, `n[v]`"
            )
            findings.add(piece.span, text)


def check_elements(spec: OpSpec, kernel: ResolvedKernel, findings: Findings) -> None:
    """The equations: each can be stated for one element alone."""
    if spec.sequence is None:
        return
    for q in kernel.equations:
        numbers = [v.name for v in q.vars if v.role is Role.ELEMENT]
        _equation(spec, q, numbers, findings)
        extents = [v.extent for v in q.vars if v.role is not Role.ELEMENT]
        _same_in_all(spec, [q.value, *q.parts, *extents], numbers, findings)
    for node in (*kernel.asserts, *kernel.born):
        for read in _reads(node):
            findings.add(read.span, f"what a list holds is read by equations only; {BY_ELEMENT}")


def _equation(spec: OpSpec, q: ResolvedEquation, numbers: list[str], findings: Findings) -> None:
    for read in _reads(q.value):
        if not (isinstance(read.element, Name) and read.element.id in numbers):
            text = f"the element of '{read.tensor}' is chosen by a variable of the left side; {BY_ELEMENT}"
            findings.add(read.span, text)
    if numbers and (spec.output(q.target.tensor) is None or q.recurrence is not None or q.op != "="):
        findings.add(q.span, f"an equation of the elements of a sequence defines an output; {BY_ELEMENT}")


def _reads(node: Node) -> Iterator[TensorRead]:
    """Reads of an element of a list."""
    return (n for n in walk(node) if isinstance(n, TensorRead) and n.element is not None)


def _same_in_all(spec: OpSpec, nodes: Iterable[Node], numbers: Iterable[str], findings: Findings) -> None:
    """Nothing reads a dim that differs from element to element but as a part, as a sum, or as that of the element at hand."""
    own = spec.own_dims
    if not own:
        return
    for node in nodes:
        for name in _apart(node, own, frozenset(numbers)):
            text = f"'{name.id}' differs from element to element; of a sequence, say `(v, {name.id}[v])` or `sum({name.id})`"
            findings.add(name.span, text)


def _apart(node: Node, own: frozenset[str], numbers: frozenset[str]) -> Iterator[Name]:
    match node:
        case Ragged():
            return
        case Call("sum", (Name(),), ()) | Offset(sizes=Name()):
            inner = [c for c in children(node) if not (isinstance(c, Name) and c.id in own)]
        case Index(Name(base), (Name(at),)) if base in own and at in numbers:
            return
        case Name(id):
            if id in own:
                yield node
            return
        case _:
            inner = list(children(node))
    for child in inner:
        yield from _apart(child, own, numbers)
