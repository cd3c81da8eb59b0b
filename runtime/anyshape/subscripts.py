"""`einsum`: sums of products of any number of tensors, said by subscripts as in NumPy.

In: an equation such as `bhid,bhjd->bhij` and its operands. Out: the value, as calls of `contract` on two operands at a time, each of
which sums over what no later operand and no result has. Letters of the ellipsis are numbered from the last, as broadcasting aligns.
"""

from __future__ import annotations

from collections.abc import Sequence

from anyshape.errors import ArgumentError, ShapeError
from anyshape.graph.value import Value
from anyshape.public import public

Labels = list[int]
_ELLIPSIS = "..."


@public
def einsum(equation: str, *operands: Value, source: str = "") -> Value:
    """Raises ArgumentError for an equation that is none, ShapeError where operands do not fit it or a rank is not known."""
    from anyshape import ops

    terms, result = _parsed(equation, operands, source)
    values = [_narrowed(operands, terms, k, source) for k in range(len(operands))]
    value, labels = values[0]
    for k, (other, theirs) in enumerate(values[1:], 1):
        later = {label for _, ls in values[k + 1 :] for label in ls} | set(result)
        kept = list(result) if k == len(values) - 1 else [n for n in dict.fromkeys([*labels, *theirs]) if n in later]
        value = ops.contract(value, other, left=labels, right=theirs, result=kept, source=source)
        labels = kept
    if labels == list(result) and len(set(labels)) == len(labels):
        return value
    return ops.contract(value, left=labels, right=[], result=result, source=source)


def _parsed(equation: str, operands: Sequence[Value], source: str) -> tuple[list[Labels], Labels]:
    """The labels of every operand and of the result: letters by their code, dims of the ellipsis from -1 downwards."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise ArgumentError(f"einsum: {equation!r} is for {len(terms)} operands, got {len(operands)}{_at(source)}")
    labels = [_labels(t, equation, source, v, k) for k, (t, v) in enumerate(zip(terms, operands))]
    widest = sorted({n for ls in labels for n in ls if n < 0})
    if arrow:
        before, dots, after = right.partition(_ELLIPSIS)
        result = [*_letters(before, equation, source), *(widest if dots else ()), *_letters(after, equation, source)]
    else:
        result = [*widest, *sorted(n for n in {n for ls in labels for n in ls if n > 0} if _often(labels, n) == 1)]
    unknown = [chr(n) for n in result if n > 0 and _often(labels, n) == 0]
    if unknown or len(set(result)) < len(result):
        problem = (
            f"no operand has {', '.join(unknown)} of the result" if unknown else "a letter occurs twice in the result"
        )
        raise ArgumentError(f"einsum: {equation!r}: {problem}{_at(source)}")
    return labels, result


def _often(labels: Sequence[Labels], label: int) -> int:
    return sum(ls.count(label) for ls in labels)


def _labels(term: str, equation: str, source: str, v: Value, k: int) -> Labels:
    before, dots, after = term.partition(_ELLIPSIS)
    first, last = _letters(before, equation, source), _letters(after, equation, source)
    rank = v.type.rank
    if rank is None:
        raise ShapeError(f"einsum: the rank of operand {k} must be known{_at(source)}")
    free = rank - len(first) - len(last)
    if free < 0 or (free and not dots):
        raise ShapeError(f"einsum: {term!r} of {equation!r} does not fit operand {k}, {v.type}{_at(source)}")
    return [*first, *range(-free, 0), *last]


def _letters(text: str, equation: str, source: str) -> Labels:
    if not text.isalpha() and text:
        raise ArgumentError(f"einsum: {equation!r} must be made of letters, `...`, `,` and `->`{_at(source)}")
    return [ord(c) for c in text]


def _narrowed(operands: Sequence[Value], terms: Sequence[Labels], own: int, source: str) -> tuple[Value, Labels]:
    """Drops the dims of size 1 that another operand has too: they broadcast. Where all have size 1 the first keeps its own."""
    from anyshape import ops

    v, labels = operands[own], terms[own]
    sizes = [list(zip(ls, of.type.shape or ())) for of, ls in zip(operands, terms)]
    kept_elsewhere = {n for k, of in enumerate(sizes) for n, size in of if k != own and (size != 1 or k < own)}
    ones = [k for k, (label, size) in enumerate(sizes[own]) if size == 1 and label in kept_elsewhere]
    if not ones:
        return v, labels
    kept = [label for k, label in enumerate(labels) if k not in ones]
    return ops.squeeze(v, axes=ones, source=source), kept


def _at(source: str) -> str:
    return f" (at {source})" if source else ""
