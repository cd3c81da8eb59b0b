"""Checks ops with sequence inputs: tensors that may be passed as a list, whose elements a program loops over.

In: an `OpSpec` with a `seq` input, then its resolved kernel. Out: findings about what cannot be computed one element at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from anyshape_gen.model.analysis import ResolvedEquation, ResolvedKernel, Role
from anyshape_gen.model.nodes import Call, Comprehension, Index, Name, Node, Offset, Reduction, TensorRead
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import AtAxis, Operand, OpSpec, Ragged, Run
from anyshape_gen.model.traverse import children, walk
from anyshape_gen.resolve.numbering import chooses_tensor

CHOSEN = "a variable of the left side, or of the reduction that is the whole right side"


def check_sequences(spec: OpSpec, findings: Findings) -> None:
    """Checks the signature and the rule."""
    for o in spec.outputs:
        if o.signature.sequence:
            findings.add(o.span, "an output cannot be a sequence; write `T[…] for v in count` for several outputs")
    listed = [o for o in spec.inputs if o.signature.sequence]
    for o in listed:
        _signature(spec, o, findings)
    if listed and spec.kernel is None:
        findings.add(listed[0].span, "an op with a sequence input needs a `kernel:`")
    nodes: list[Node] = [*spec.shape, *spec.params, *spec.outputs]
    nodes += [o for o in spec.inputs if not o.signature.sequence]
    _same_in_all(spec, nodes, (), findings)


def _signature(spec: OpSpec, o: Operand, findings: Findings) -> None:
    signature = o.signature
    if signature.optional or signature.default is not None:
        findings.add(o.span, f"the sequence '{o.name}' cannot be absent")
    for other in (*spec.inputs, *spec.outputs):
        if other is not o and other.signature.variadic is not None:
            findings.add(
                other.span,
                f"an op with the sequence '{o.name}' cannot have another input or output that is several tensors",
            )
    for piece in signature.pieces:
        inner = piece.dim if isinstance(piece, AtAxis) else piece
        if isinstance(inner, Run) and inner.element is not None:
            text = "all elements of a sequence have one rank; a dim that differs from element to element has a name of its own, `n[v]`"
            findings.add(piece.span, text)


def check_elements(spec: OpSpec, kernel: ResolvedKernel, findings: Findings) -> None:
    """Checks that each equation can be computed for one element of the sequence alone."""
    if spec.sequence is None:
        return
    by_element = {q.target.tensor for q in kernel.equations if _numbers(q)}
    for q in kernel.equations:
        numbers = _numbers(q)
        _equation(spec, q, numbers, by_element, findings)
        extents = [v.extent for v in q.vars if v.role is not Role.ELEMENT]
        _same_in_all(spec, [q.value, *q.parts, *extents], numbers, findings)
    for node in (*kernel.asserts, *kernel.unbacked):
        findings.add(node.span, "an op with a sequence input can read elements in equations only")


def _numbers(q: ResolvedEquation) -> list[str]:
    """Lists the variables that number an element of the sequence: on the left side, or of the reduction that is the whole right side."""
    variables = [v.name for v in q.vars if v.role is Role.ELEMENT]
    if isinstance(q.value, Reduction) and chooses_tensor(q.value, q.value.generators[0]):
        variables.append(q.value.generators[0].targets[0].name)
    return variables


def _equation(spec: OpSpec, q: ResolvedEquation, numbers: list[str], by_element: set[str], findings: Findings) -> None:
    for read in (n for n in walk(q.value) if isinstance(n, TensorRead)):
        if read.element is not None and not (isinstance(read.element, Name) and read.element.id in numbers):
            findings.add(read.span, f"the element of '{read.tensor}' that is read must be selected by {CHOSEN}")
        if read.tensor in by_element:
            findings.add(
                read.span,
                f"'{read.tensor}' is complete only after the last element of the sequence; read it in another op",
            )
    if len(numbers) > 1:
        findings.add(q.span, f"an equation has one loop over the elements of a sequence: by {CHOSEN}")
    plain = q.op == "=" and q.recurrence is None and not isinstance(q.value, Comprehension)
    if numbers and not (plain and spec.output(q.target.tensor) is not None):
        findings.add(
            q.span, "an equation over the elements of a sequence must define an output: `y[v, *i] = xs[v][*i]`"
        )
    elif not plain or (isinstance(q.value, Call) and q.value.func == "argsort"):
        findings.add(q.span, "the equations of an op with a sequence input must define each element once: `t[…] = e`")


def _same_in_all(spec: OpSpec, nodes: Iterable[Node], numbers: Iterable[str], findings: Findings) -> None:
    """Checks that a dim that differs from element to element is read only as a part, as a sum, or as that of the current element."""
    own = spec.own_dims
    if not own:
        return
    for node in nodes:
        for name in _apart(node, own, frozenset(numbers)):
            text = f"'{name.id}' differs from element to element of the sequence: write `(v, {name.id}[v])` or `sum({name.id})`"
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
            inner = children(node)
    for child in inner:
        yield from _apart(child, own, numbers)
