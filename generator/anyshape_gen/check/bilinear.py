"""Algorithms with fewer products: proves that they compute what they stand for, and how much larger their errors may be.

In: the three matrices of an op with `bilinear:`, the algorithms of an op. Out: findings; a bound of errors.

A sum over windows, y[a] = sum(w[q] * x[a * stride + q] for q), is computed for m results at once as
results · ((weights · w) * (windows · x)): one product for each row of `windows`, of which there are fewer than m times the taps. Both sides
are bilinear in w and x, so they are equal for all numbers if they are for each pair of an element of w and an element of x: finitely many
equations of rationals, decided exactly.
"""

from __future__ import annotations

from fractions import Fraction

from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.nodes import Int
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import DimExpr, Matrix, OpSpec
from anyshape_gen.model.traverse import free_names


def check_algorithms(ops: tuple[OpAnalysis, ...], findings: Findings) -> None:
    """Checks the matrices of all ops of an analysis, and what ops say of their algorithms."""
    specs = {a.spec.name: a.spec for a in ops}
    for spec in specs.values():
        if spec.bilinear:
            _check_matrices(spec, findings)
        for each in spec.algorithms:
            other = specs.get(each.op)
            if other is None:
                findings.unknown(each.span, "op", each.op, specs)
            else:
                _check_alike(spec, other, each.constant, frozenset(free_names(each.condition)), findings)


def growth_of(spec: OpSpec, constant: str) -> float:
    """The factor by which the bound of a result's errors is larger than that of the sum itself. Where |x| is at most 1, products are at
    most sum(|windows|) times |weights| for each weight, and a result adds them up with |results|; so for each direction, of which the
    input `constant` has a dim of all taps."""
    windows, weights, results = spec.bilinear
    reach = [sum(map(abs, row)) for row in windows.rows]
    growth = max(
        sum(abs(row[i]) * abs(weights.rows[i][q]) * reach[i] for i in range(len(reach)))
        for row in results.rows
        for q in range(weights.columns)
    )
    return float(growth ** _directions(spec, constant))


def _directions(spec: OpSpec, constant: str) -> int:
    """How many dims of an input are the taps."""
    pieces = next(o.signature.pieces for o in spec.inputs if o.name == constant)
    taps = spec.bilinear[1].columns
    return sum(isinstance(p, DimExpr) and isinstance(p.expr, Int) and p.expr.value == taps for p in pieces)


def _check_matrices(spec: OpSpec, findings: Findings) -> None:
    if spec.compose is None:
        findings.add(spec.bilinear[0].span, f"only a composed op reads matrices, and '{spec.name}' has no `compose:`")
    if len(spec.bilinear) < 3:
        return
    windows, weights, results = spec.bilinear
    products = len(windows.rows)
    if len(weights.rows) != products or results.columns != products:
        text = f"'windows' has {products} rows, 'weights' {len(weights.rows)} and 'results' {results.columns} columns; all are the products"
        findings.add(windows.span, text)
        return
    seen, taps, further = windows.columns, weights.columns, len(results.rows) - 1
    stride = max((seen - taps) // further, 1) if further > 0 else 1
    if seen != further * stride + taps:
        text = f"{further + 1} results of {taps} taps see {further + taps} elements at stride 1, {2 * further + taps} at stride 2"
        text += f", but 'windows' has {seen} columns"
        findings.add(windows.span, text)
        return
    wrong = _first_wrong(windows, weights, results, stride)
    if wrong is not None:
        a, p, q, got = wrong
        want = int(p == a * stride + q)
        findings.add(
            results.span,
            f"these matrices are no sum over windows: result {a} has {got} times x[{p}] * w[{q}], and the sum has {want} times it",
        )


def _first_wrong(
    windows: Matrix, weights: Matrix, results: Matrix, stride: int
) -> tuple[int, int, int, Fraction] | None:
    """The first product of elements that the matrices count wrongly: its result, the places of both, and how often they count it."""
    for a, row in enumerate(results.rows):
        for p in range(windows.columns):
            for q in range(weights.columns):
                got = sum((row[i] * windows.rows[i][p] * weights.rows[i][q] for i in range(len(row))), Fraction(0))
                if got != (p == a * stride + q):
                    return a, p, q, got
    return None


def _check_alike(spec: OpSpec, other: OpSpec, constant: str, decided: frozenset[str], findings: Findings) -> None:
    """Checks that the call of an op can be one of its algorithm."""
    (span,) = {each.span for each in spec.algorithms if each.op == other.name}
    if not other.bilinear:
        findings.add(span, f"'{other.name}' has no `bilinear:`, so that nothing is proved of it")
    if [o.name for o in spec.inputs] != [o.name for o in other.inputs] or len(spec.outputs) != len(other.outputs):
        findings.add(span, f"'{other.name}' must have the inputs and outputs of '{spec.name}'")
    own = {p.name for p in other.params}
    for p in spec.params:
        if p.name not in own and p.name not in decided:
            findings.add(span, f"'{other.name}' has no parameter '{p.name}', so that the condition must say what it is")
    for name in sorted(own - {p.name for p in spec.params}):
        findings.add(span, f"'{spec.name}' has no parameter '{name}', which '{other.name}' has")
    if constant not in {o.name for o in spec.inputs}:
        findings.unknown(span, "input", constant, [o.name for o in spec.inputs])
    elif constant in {o.name for o in other.inputs} and len(other.bilinear) == 3 and not _directions(other, constant):
        taps = other.bilinear[1].columns
        findings.add(
            span, f"the input '{constant}' of '{other.name}' has no dim of {taps} taps, which bounds its errors"
        )
