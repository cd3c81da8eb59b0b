"""Emits the function that draws random calls of an op, from its signature.

In: an op's analysis. Out: the text of `<op>_case`, which draws shapes by the signature (a name is drawn once), then params by their kinds;
most of them satisfy the asserts. Draws that violate an assert are rejected by the relation, not here.
"""

from __future__ import annotations

from anyshape_gen.emit.draws.case_contents import content_constraints
from anyshape_gen.emit.draws.case_params import param
from anyshape_gen.emit.draws.case_sizes import run, run_between, size
from anyshape_gen.emit.draws.case_text import argument_text, local, run_of, there
from anyshape_gen.emit.draws.case_writer import CaseWriter
from anyshape_gen.emit.rules.rule_text import source_of
from anyshape_gen.emit.text.module import Emitted, quoted, tuple_text, use
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.nodes import Call, Name
from anyshape_gen.model.spec import AtAxes, AtAxis, Dim, DimExpr, Operand, OpSpec, Piece, Product, Run, RunExpr
from anyshape_gen.model.traverse import free_names, walk_all


def case(a: OpAnalysis) -> Emitted:
    """Emits the function of one op. It is emitted twice: only after the first time it is known which parameters other draws depend on; such
    a parameter has its default before the other draws."""
    first = CaseWriter(a, frozenset(), param)
    _written(first)
    return _written(CaseWriter(a, frozenset(first.early), param))


def _written(w: CaseWriter) -> Emitted:
    code = w.code
    code.comment(source_of(w.spec))
    code.add(f"def {w.spec.name}_case(d: {use('Draw')}) -> {use('Case')}:")
    code.indent()
    start = len(code.lines)
    for names in _joint(w.spec):
        code.add(f"{', '.join(map(local, names))} = d.broadcastable({len(names)})")
        w.drawn |= set(names)
    for group in w.together:
        code.add(f"{', '.join(map(there, group))} = d.together({len(group)})")
    shapes = {o.name: _input(w, o) for o in w.spec.inputs}
    for p in w.spec.params:
        param(w, p)
    listed = ", ".join(f"{quoted(k)}: {v}" for k, v in shapes.items())
    asked = content_constraints(w.a, w.drawn, w.spell)
    by_range = bool(asked["ranges"])  # with the default in place of a drawn value the ranges would be wrong
    params = ", ".join(
        f"{quoted(p.name)}: {w.passed.get(p.name) or argument_text(p, by_range, p.name in w.early)}"
        for p in w.spec.params
    )
    words = [f"{{{listed}}}", f"{{{params}}}"]
    words += [f"{name}={{{', '.join(entries)}}}" for name, entries in asked.items() if entries]
    code.add(f"return {use('Case')}({', '.join(words)})")
    if any("rule." in line for line in code.lines):
        # The signature has a partial operation, which rejects the draw where it fails.
        code.insert(start, f"rule = {use('Rule')}({quoted(w.spec.name)})")
    return code.text()


def _joint(spec: OpSpec) -> list[tuple[str, ...]]:
    """Lists groups of runs (and of params that are shapes) that the outputs broadcast."""
    groups: list[tuple[str, ...]] = []
    for node in walk_all([*spec.outputs]):
        match node:
            case Call("broadcast", args, _) if len(args) > 1 and all(isinstance(x, Name) for x in args):
                names = tuple(x.id for x in args if isinstance(x, Name))
                if not any(set(names) & set(group) for group in groups):
                    groups.append(names)
    return groups


def _input(w: CaseWriter, o: Operand) -> str:
    """Draws the names of an input that are not drawn yet; returns its shape as text."""
    s = o.signature
    if s.variadic is not None:
        return _variadic(w, o)
    _as_far_before(w, o)
    parts = [_piece(w, o, p, k) for k, p in enumerate(s.pieces) if not isinstance(p, AtAxes)]
    shape = parts[0][1:] if len(parts) == 1 and parts[0].startswith("*") else f"{use('Vec')}({tuple_text(parts)})"
    for p in s.pieces:
        if isinstance(p, AtAxes):
            shape = _at_axes(w, p, shape)
    for p in s.pieces:
        if isinstance(p, AtAxis):
            _axis_of(w, o, p)
    if any(o.name in group for group in w.together):
        return f"{shape} if {there(o.name)} else None"
    if s.default is not None or s.optional:
        return f"d.default({shape})"
    return shape


def _variadic(w: CaseWriter, o: Operand) -> str:
    variadic = o.signature.variadic
    assert variadic is not None
    if not isinstance(variadic.count, Name):
        raise NotExecuted(o, "a variadic input whose number is computed")
    count = local(variadic.count.id)
    if variadic.count.id not in w.drawn:
        w.drawn.add(variadic.count.id)
        w.code.add(f"{count} = 1 + d.length(3)")
    parts = []
    for k, p in enumerate(o.signature.pieces):
        inner = p.dim if isinstance(p, AtAxis) else p
        if isinstance(inner, (Dim, Run)) and inner.element is not None:
            if inner.name not in w.drawn:
                w.drawn.add(inner.name)
                kind = "run" if isinstance(inner, Run) else "dim"
                w.code.add(f"{local(inner.name)} = [d.{kind}({quoted(inner.name)}) for _ in range({count})]")
            star = "*" if isinstance(inner, Run) else ""
            parts.append(f"{star}{local(inner.name)}[{local(variadic.var)}]")
        else:
            parts.append(_piece(w, o, p, k))
    for p in o.signature.pieces:
        if isinstance(p, AtAxis):
            _axis_of(w, o, p)
    return f"[{use('Vec')}({tuple_text(parts)}) for {local(variadic.var)} in range({count})]"


def _piece(w: CaseWriter, o: Operand, p: Piece, k: int) -> str:
    match p:
        case AtAxis(dim, _):
            return _piece(w, o, dim, k)
        case Dim(name, optional):
            if optional:
                w.new(name, f"d.maybe({quoted(name)}, {_crowded(w, o)})")
                return f"*{local(name)}"
            if name in w.params and name not in w.drawn:
                param(w, w.params[name])
                w.early.add(name)
            if name not in w.drawn:
                w.new(name, size(w, name))
            return local(name)
        case Run(name, length):
            w.new(name, run(w, name, length))
            if isinstance(length, Name) and length.id in w.params and length.id not in w.drawn:
                _length(w, o, length.id, name)
            elif isinstance(length, Name) and length.id not in w.params:  # a dim: as long as the run is
                w.new(length.id, f"len({local(name)})")
            return f"*{local(name)}"
        case DimExpr(expr):
            for name in sorted(
                free_names(expr) - w.drawn - w.params.keys() - {"inf", "pi"}
            ):  # a name that only this dim defines
                w.new(name, size(w, name))
            return w.spell(expr)
        case RunExpr(expr):
            w.draw_first(expr)
            return f"*{w.text.at_least(expr, 10)}"
        case Product(factors):
            return " * ".join(_piece(w, o, f, k) for f in factors)
    raise NotExecuted(p, "a random call with this piece of a signature")


def _crowded(w: CaseWriter, o: Operand) -> str:
    """Prints whether other runs of the operand have dims, in which case an optional dim must be present."""
    runs = [local(p.name) for p in o.signature.pieces if isinstance(p, Run) and p.name in w.drawn]
    return " or ".join(f"len({r}) > 0" for r in runs) or "False"


def _axis_of(w: CaseWriter, o: Operand, p: AtAxis) -> None:
    if not isinstance(p.axis, Name) or p.axis.id in w.drawn:
        return
    before = []
    for q in o.signature.pieces:
        if q is p:
            break
        before.append(f"len({local(q.name)})" if isinstance(q, Run) else "1")
    w.position[p.axis.id] = " + ".join(before) or "0"
    w.new(p.axis.id, f"d.axis({w.position[p.axis.id]}, {w.rank(o)})")


def _as_far_before(w: CaseWriter, o: Operand) -> None:
    """Draws the run before an axis, mostly as long as in the input for which the axis was drawn."""
    match o.signature.pieces:
        case (Run(name), AtAxis(_, Name(axis)), *_) if axis in w.position:
            count = f"d.mostly(({w.position[axis]},), lambda: d.length(3))"
            w.new(name, run_between(w, name, count) or run_of(name, count))


def _length(w: CaseWriter, o: Operand, param: str, run: str) -> None:
    """Draws a parameter that is the length of a run, `*o:axis`; all other pieces are drawn before, since the rank depends on them."""
    for k, p in enumerate(o.signature.pieces):
        if not (isinstance(p, Run) and p.name == run):
            _piece(w, o, p, k)
    kind = w.params[param].kind.base
    w.new(param, f"d.axis(len({local(run)}), {w.rank(o)})" if kind == "axis" else f"len({local(run)})")


def _at_axes(w: CaseWriter, p: AtAxes, rest: str) -> str:
    if not isinstance(p.axes, Name):
        raise NotExecuted(p, "a random call with computed axes")
    if isinstance(p.run, Run):
        w.new(p.run.name, run(w, p.run.name))
        picked = local(p.run.name)
    else:
        raise NotExecuted(p, "a random call with computed dims at axes")
    axes = local(p.axes.id)
    w.new(p.axes.id, f"d.axes(len({picked}), len({rest}) + len({picked}))")
    return f"{use('place')}({rest}, {picked}, [k % (len({rest}) + len({picked})) for k in {axes}])"
