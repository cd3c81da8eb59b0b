"""Random calls: the function that draws one, read off a signature.

In: an op's analysis. Out: the text of `<op>_case`, which draws shapes by the signature (a name is drawn once), then params by their kinds,
mostly such as the asserts allow. Draws that break an assert are rejected by the relation, not here.
"""

from __future__ import annotations

from anyshape_gen.analysis_model import OpAnalysis, ValueKind
from anyshape_gen.emit.case_contents import contents_asked
from anyshape_gen.emit.case_text import dtypes, given, local, run_of, takes_away, there
from anyshape_gen.emit.module import Code, quoted, tuple_text
from anyshape_gen.emit.refusal import NotExecuted
from anyshape_gen.emit.relations import NOT_LITERAL, literal
from anyshape_gen.emit.rule_text import RuleText, source_of
from anyshape_gen.emit.wants import ANY, Between, Wants, unconditional
from anyshape_gen.kinds import kind_of
from anyshape_gen.model import (
    AtAxes,
    AtAxis,
    Dim,
    DimExpr,
    Operand,
    ParamSpec,
    Piece,
    Product,
    Run,
    RunExpr,
)
from anyshape_gen.nodes import (
    Call,
    Compare,
    Expr,
    Index,
    Int,
    Name,
    NoneLit,
    Str,
)
from anyshape_gen.traverse import free_names, rebuild, walk, walk_all

DRAWN_FIRST = ("int", "bool", "number", "enum", "ints", "axis", "axes")
"""Kinds of parameters by which other things may be drawn"""
RANK = "rank_of_first"
"""Stands for the rank of the first input until its text is known"""


def case(a: OpAnalysis) -> str:
    """The function of one op. It is written twice, since what is drawn by a parameter is known only then: such a parameter has its default
    before anything is drawn by it."""
    first = _Case(a, frozenset())
    first.emit()
    return _Case(a, frozenset(first.early)).emit()


class _Case:
    """Writes the function that draws a call."""

    def __init__(self, a: OpAnalysis, resolved: frozenset[str]) -> None:
        self.a, self.spec = a, a.spec
        self.resolved = resolved
        """Parameters of which others depend: a default is put in their place at once."""
        self.code = Code()
        self.drawn: set[str] = set()
        self.text = RuleText(a.kinds, rename=local, trusted=True)
        self.params: dict[str, ParamSpec] = {p.name: p for p in self.spec.params}
        self.joint = self._joint()
        divisions = [e for e in walk_all([*a.rule, *self.spec.outputs, *self.spec.inputs]) if isinstance(e, Call)]
        self.wants = Wants(a.rule, divisions, a.shape_functions)
        self.early: set[str] = set()
        """Params that something else was drawn by."""
        self.open: set[str] = set()
        """Params that are being drawn: none of them is drawn first for another."""
        self.given: dict[str, str] = {}
        """Params that have their default where None was drawn, and the name of what was."""
        self.position: dict[str, str] = {}
        """Of axes: how many dims stand before"""
        self.together = [g for g in self.wants.together() if set(g) <= {o.name for o in self.spec.inputs}]

    def emit(self) -> str:
        code = self.code
        code.comment(source_of(self.spec))
        code.add(f"def {self.spec.name}_case(d: Draw) -> Case:")
        code.indent()
        start = len(code.lines)
        for names in self.joint:
            code.add(f"{', '.join(map(local, names))} = d.broadcastable({len(names)})")
            self.drawn |= set(names)
        for group in self.together:
            code.add(f"{', '.join(map(there, group))} = d.together({len(group)})")
        shapes = {o.name: self._input(o) for o in self.spec.inputs}
        for p in self.spec.params:
            self._param(p)
        listed = ", ".join(f"{quoted(k)}: {v}" for k, v in shapes.items())
        asked = contents_asked(self.a, self.drawn, self._said)
        by_range = bool(asked["ranges"])  # with a default in place of what was drawn they would be those of another dim
        params = ", ".join(
            f"{quoted(p.name)}: {self.given.get(p.name) or given(p, by_range, p.name in self.early)}"
            for p in self.spec.params
        )
        words = [f"{{{listed}}}", f"{{{params}}}"]
        words += [f"{name}={{{', '.join(found)}}}" for name, found in asked.items() if found]
        code.add(f"return Case({', '.join(words)})")
        if any("rule." in line for line in code.lines):
            # A partial operation in a signature: what it refuses rejects the draw.
            code.lines.insert(start, f'    rule = Rule("{self.spec.name}")')
        return code.text()

    def _joint(self) -> list[tuple[str, ...]]:
        """Runs (and shapes given as params) that the outputs broadcast."""
        found: list[tuple[str, ...]] = []
        for node in walk_all([*self.spec.outputs]):
            match node:
                case Call("broadcast", args, _) if len(args) > 1 and all(isinstance(x, Name) for x in args):
                    names = tuple(x.id for x in args if isinstance(x, Name))
                    if not any(set(names) & set(group) for group in found):
                        found.append(names)
        return found

    # --- inputs

    def _input(self, o: Operand) -> str:
        """Draws what is new in an input; its shape as text."""
        s = o.signature
        if s.variadic is not None:
            return self._variadic(o)
        self._as_far_before(o)
        parts = [self._piece(o, p, k) for k, p in enumerate(s.pieces) if not isinstance(p, AtAxes)]
        shape = parts[0][1:] if len(parts) == 1 and parts[0].startswith("*") else f"Vec({tuple_text(parts)})"
        for p in s.pieces:
            if isinstance(p, AtAxes):
                shape = self._at_axes(p, shape)
        for p in s.pieces:
            if isinstance(p, AtAxis):
                self._axis_of(o, p)
        if any(o.name in group for group in self.together):
            return f"{shape} if {there(o.name)} else None"
        if s.default is not None or s.optional:
            return f"d.default({shape})"
        return shape

    def _variadic(self, o: Operand) -> str:
        variadic = o.signature.variadic
        assert variadic is not None
        if not isinstance(variadic.count, Name):
            raise NotExecuted(o, "a variadic input whose number is computed")
        count = local(variadic.count.id)
        if variadic.count.id not in self.drawn:
            self.drawn.add(variadic.count.id)
            self.code.add(f"{count} = 1 + d.length(3)")
        parts = []
        for k, p in enumerate(o.signature.pieces):
            inner = p.dim if isinstance(p, AtAxis) else p
            if isinstance(inner, (Dim, Run)) and inner.element is not None:
                if inner.name not in self.drawn:
                    self.drawn.add(inner.name)
                    kind = "run" if isinstance(inner, Run) else "dim"
                    self.code.add(f"{local(inner.name)} = [d.{kind}({quoted(inner.name)}) for _ in range({count})]")
                star = "*" if isinstance(inner, Run) else ""
                parts.append(f"{star}{local(inner.name)}[{local(variadic.var)}]")
            else:
                parts.append(self._piece(o, p, k))
        for p in o.signature.pieces:
            if isinstance(p, AtAxis):
                self._axis_of(o, p)
        return f"[Vec({tuple_text(parts)}) for {local(variadic.var)} in range({count})]"

    def _piece(self, o: Operand, p: Piece, k: int) -> str:
        match p:
            case AtAxis(dim, _):
                return self._piece(o, dim, k)
            case Dim(name, optional):
                if optional:
                    self._new(name, f"d.maybe({quoted(name)}, {self._crowded(o)})")
                    return f"*{local(name)}"
                if name in self.params and name not in self.drawn:
                    self._param(self.params[name])
                    self.early.add(name)
                if name not in self.drawn:
                    self._new(name, self._size(name))
                return local(name)
            case Run(name, length):
                self._new(name, self._run(name, length))
                if isinstance(length, Name) and length.id in self.params and length.id not in self.drawn:
                    self._length(o, length.id, name)
                elif isinstance(length, Name) and length.id not in self.params:  # a dim: as long as the run is
                    self._new(length.id, f"len({local(name)})")
                return f"*{local(name)}"
            case DimExpr(expr):
                return self._said(expr)
            case RunExpr(expr):
                self._draw_first(expr)
                return f"*{self.text.at_least(expr, 10)}"
            case Product(factors):
                return " * ".join(self._piece(o, f, k) for f in factors)
        raise NotExecuted(p, "a random call with this piece of a signature")

    def _new(self, name: str, draw: str) -> None:
        if name not in self.drawn:
            self.drawn.add(name)
            self.code.add(f"{local(name)} = {draw}")

    def _run(self, name: str, length: Expr | None = None) -> str:
        """A run of any sizes, or of such as the asserts want."""
        each = self.wants.each(name, lambda e: self._known(e, Name(name)))
        if each and (length is None or free_names(length) <= self.drawn):
            count = f", {self._said(length)}" if length is not None else ""
            return f"Vec(d.each_of({tuple_text(map(self._said, each))}{count}))"
        if isinstance(length, Int):
            return f"Vec({tuple_text([self._number(Index(Name(name), (Int(k),)), name) for k in range(length.value)])})"
        if length is not None and not isinstance(length, Name) and free_names(length) <= self.drawn:
            count = self._said(length)
            draws = (
                f"d.positives({count})"
                if self.wants.positive(name)
                else f"d.dim({quoted(name)}) for _ in range({count})"
            )
            return self._run_between(name, count) or self._mostly_equal(name, f"Vec({draws})")
        for s in self.wants.parts:
            match s:
                case Compare(Name(id), (("==", Int(value)),)) if id == name:
                    return f"d.repeated({value})"
                case Compare(Call("prod", (Name(id),), ()), (("==", Int(1)),)) if id == name:
                    return "d.repeated(1)"
        to = [self._said(e) for e in self.wants.broadcasts_to(name, lambda e: self._known(e, Name(name)))]
        if to:
            return f"d.broadcasting_to({to[0] if len(to) == 1 else f'd.member({tuple_text(to)})'})"
        if (between := self._run_between(name, None)) is not None:
            return between
        if (narrow := self.wants.broadcast_of(name, lambda e: free_names(e) <= self.drawn)) is not None:
            return f"d.broadcast_of({self._said(narrow)})"
        count = self._mostly(Call("len", (Name(name),)), "d.length(3)", size=True, of_vectors=False)
        return self._mostly_equal(name, f"d.run({quoted(name)})" if count == "d.length(3)" else run_of(name, count))

    def _run_between(self, name: str, count: str | None) -> str | None:
        """A run below or above others, dim by dim; `count`: its length, else that of the vector that bounds it."""
        found = self.wants.bounds(Name(name), lambda e: free_names(e) <= self.drawn)
        if found is None or (isinstance(found.low, Int) and found.high is None):
            return None
        vectors = [e for e in (found.low, found.high) if e is not None and kind_of(e, self.a.kinds) is ValueKind.VECTOR]
        if not vectors and count is None:
            return None
        return f"Vec({self._each_between(found, count or f'len({self._said(vectors[0])})', low=Int(0))})"

    def _each_between(self, b: Between, count: str, low: Expr | None = None) -> str:
        ends = [self._said(e) if e is not None else "None" for e in (b.low or low, b.high)]
        return f"d.each_between({count}, {', '.join(ends)})"

    def _size(self, name: str) -> str:
        """One dim."""
        for what, e in (("divisor", self.wants.divides), ("multiple", self.wants.multiple)):
            if (by := e(name, lambda e: self._known(e, Name(name)))) is not None:
                return f"d.{what}({self._said(by)})"
        return self._number(Name(name), name)

    def _number(self, subject: Expr, name: str) -> str:
        any_dim = f"d.dim({quoted(name)})"
        drawn = self._mostly(subject, any_dim, size=True)
        found = self.wants.bounds(subject, lambda e: free_names(e) <= self.drawn) if drawn == any_dim else None
        if found is None or (isinstance(found.low, Int) and found.high is None):
            return drawn
        return f"d.between({', '.join(self._said(e) if e is not None else 'None' for e in (found.low or Int(0), found.high))})"

    def _said(self, e: Expr) -> str:
        """The text of what is drawn by other names; these are drawn first."""
        self._draw_first(e)
        return self.text.text(e)

    def _mostly_equal(self, name: str, any_other: str) -> str:
        """A draw of a vector that the asserts want, and rarely of any other."""

        found = self.wants.equal(Name(name), lambda e: self._known(e, Name(name)))
        values = [v for v in found if v is not None and kind_of(unconditional(v), self.a.kinds) is ValueKind.VECTOR]
        words = [self._said(v).replace(ANY.id, any_other) for v in values]
        return f"d.mostly({tuple_text(words)}, lambda: {any_other})" if values else any_other

    def _mostly(self, subject: Expr, any_other: str, size: bool = False, of_vectors: bool = True) -> str:
        """A draw of what the asserts want of the subject, and rarely of any other. `of_vectors`: also by vectors that are not drawn yet."""

        def known(e: Expr) -> bool:
            later = {self.params[n].kind.base for n in free_names(e) - self.drawn if n in self.params}
            return self._known(e, subject) and (of_vectors or later.isdisjoint(("ints", "axes")))

        values = self.wants.values(subject, known)
        if not values:
            return any_other
        for v in values:
            self._draw_first(v)
        words = [any_other if v is None else self._value(v, size).replace(ANY.id, any_other) for v in values]
        return f"d.mostly({tuple_text(words)}, lambda: {any_other})"

    def _value(self, e: Expr, size: bool) -> str:
        """Its text; of a size no negative number."""
        if not size or not (free_names(e) & set(self.params) or takes_away(e)):
            return self._said(e)
        return f"max(0, {self._said(e)})"

    def _known(self, e: Expr, subject: Expr) -> bool:
        """Whether all of its names are drawn, or are parameters that can be drawn first."""
        others = {n for n, p in self.params.items() if n not in self.drawn | self.open and self._can_be_drawn(p)}
        return free_names(e) <= self.drawn | {ANY.id} | (others - free_names(subject))

    def _can_be_drawn(self, p: ParamSpec) -> bool:
        """Whether nothing that is not drawn yet counts for it; and a default can be said now."""
        length = p.kind.length
        counted = length is None or isinstance(length, Name) or free_names(length) <= self.drawn
        if p.kind.base in ("axis", "axes"):
            counted = counted and bool(self.spec.inputs) and self._is_drawn(self.spec.inputs[0]) and p.of is None
        return counted and p.kind.base in DRAWN_FIRST and (p.default is None or self._default_is_known(p))

    def _default_is_known(self, p: ParamSpec) -> bool:
        """Whether its default can be said, now or when parameters without one are drawn."""
        if self._default(p) is not None:
            return True
        missing = free_names(p.default) - self.drawn if p.default is not None else set()
        others = [self.params[n] for n in missing if n in self.params and n not in self.open]
        return 0 < len(others) == len(missing) and all(q.default is None and self._can_be_drawn(q) for q in others)

    def _is_drawn(self, o: Operand) -> bool:
        pieces = o.signature.pieces
        return all(free_names(p) - set(self.params) <= self.drawn for p in pieces) and o.signature.variadic is None

    def _default(self, p: ParamSpec) -> str | None:
        """The text of its default, where it can be said; None where that is no value, or one of what is not drawn yet."""
        if p.default is None or isinstance(p.default, NoneLit):
            return None
        if (value := literal(p.default)) is not NOT_LITERAL:
            return quoted(value) if isinstance(value, str) else repr(value)
        e = p.default
        ranks = {n for c in walk(e) for n in (free_names(c) if isinstance(c, Call) and c.func == "rank" else ())}
        if not free_names(e) - ranks <= self.drawn or not ranks <= {o.name for o in self.spec.inputs[:1]}:
            return None
        if ranks and not self._is_drawn(self.spec.inputs[0]):
            return None

        def change(node: Expr) -> Expr:
            return Name(RANK) if isinstance(node, Call) and node.func == "rank" else rebuild(node, change)

        text = self.text.text(change(e))
        return text.replace(f"{RANK}", f"{self._rank(self.spec.inputs[0])}") if ranks else text

    def _draw_first(self, e: Expr | None) -> None:
        if e is not None:
            for name in sorted((free_names(e) - self.drawn) & set(self.params)):
                self._param(self.params[name])
            self.early |= free_names(e) & set(self.params)

    def _crowded(self, o: Operand) -> str:
        """Whether other runs of the operand have dims, which an optional dim must then have too."""
        runs = [local(p.name) for p in o.signature.pieces if isinstance(p, Run) and p.name in self.drawn]
        return " or ".join(f"len({r}) > 0" for r in runs) or "False"

    def _rank(self, o: Operand) -> str:
        """The rank of an input all of whose names are drawn."""
        words = []
        fixed = 0
        for p in o.signature.pieces:
            inner = p.run if isinstance(p, AtAxes) else p.dim if isinstance(p, AtAxis) else p
            if isinstance(inner, Run) or (isinstance(inner, Dim) and inner.optional):
                words.append(f"len({local(inner.name)})")
            elif isinstance(inner, RunExpr):
                words.append(f"len({self.text.text(inner.expr)})")
            else:
                fixed += 1
        if fixed or not words:
            words.append(str(fixed))
        return " + ".join(words)

    def _axis_of(self, o: Operand, p: AtAxis) -> None:
        if not isinstance(p.axis, Name) or p.axis.id in self.drawn:
            return
        before = []
        for q in o.signature.pieces:
            if q is p:
                break
            before.append(f"len({local(q.name)})" if isinstance(q, Run) else "1")
        self.position[p.axis.id] = " + ".join(before) or "0"
        self._new(p.axis.id, f"d.axis({self.position[p.axis.id]}, {self._rank(o)})")

    def _as_far_before(self, o: Operand) -> None:
        """What stands before an axis is mostly as long as in the input that the axis was drawn with."""
        match o.signature.pieces:
            case (Run(name), AtAxis(_, Name(axis)), *_) if axis in self.position:
                count = f"d.mostly(({self.position[axis]},), lambda: d.length(3))"
                self._new(name, self._run_between(name, count) or run_of(name, count))

    def _length(self, o: Operand, param: str, run: str) -> None:
        """`*o:axis`: the parameter is the run's length; all other pieces have to be drawn before its rank is known."""
        for k, p in enumerate(o.signature.pieces):
            if not (isinstance(p, Run) and p.name == run):
                self._piece(o, p, k)
        kind = self.params[param].kind.base
        self._new(param, f"d.axis(len({local(run)}), {self._rank(o)})" if kind == "axis" else f"len({local(run)})")

    def _at_axes(self, p: AtAxes, rest: str) -> str:
        if not isinstance(p.axes, Name):
            raise NotExecuted(p, "a random call with computed axes")
        if isinstance(p.run, Run):
            self._new(p.run.name, self._run(p.run.name))
            picked = local(p.run.name)
        else:
            raise NotExecuted(p, "a random call with computed dims at axes")
        axes = local(p.axes.id)
        self._new(p.axes.id, f"d.axes(len({picked}), len({rest}) + len({picked}))")
        return f"place({rest}, {picked}, [k % (len({rest}) + len({picked})) for k in {axes}])"

    # --- params

    def _param(self, p: ParamSpec) -> None:
        if p.kind.base == "strs" and isinstance(p.default, NoneLit):
            self._new(p.name, "None")  # examples give it
        elif p.name not in self.drawn:
            self.open.add(p.name)
            if p.name in self.resolved and self._default_is_known(p):
                self._draw_first(p.default)
            drawn, default = self._draw(p), self._default(p)
            self.open.remove(p.name)
            if p.kind.base in ("ints", "axes"):
                drawn = f"Vec({drawn})"
            if p.name in self.resolved and default is not None:
                self.given[p.name] = f"{p.name}_given"
                self.code.add(f"{p.name}_given = d.default({drawn})")
                drawn = f"{default} if {p.name}_given is None else {p.name}_given"
            self._new(p.name, drawn)
            for k, e in self.wants.items(p.name, lambda e: free_names(e) <= self.drawn):
                self.code.add(f"{local(p.name)} = d.with_item({local(p.name)}, {k}, {self._said(e)})")

    def _count(self, p: ParamSpec) -> str:
        """How many items a list has: an open name is drawn with the first list that needs it."""
        length = p.kind.length
        if length is None:
            return self._mostly(Call("len", (Name(p.name),)), "d.length(3)", size=True)
        if isinstance(length, Name):
            self._new(length.id, f"d.length({self._most(length.id)})")
        return self._said(length)

    def _most(self, length: str) -> str:
        """How long a list can be: axes are different, so no longer than the rank."""
        shared = any(q.kind.base == "axes" and q.kind.length == Name(length) for q in self.spec.params)
        return f"min(3, {self._rank(self.spec.inputs[0])})" if shared and self.spec.inputs else "3"

    def _texts(self, p: ParamSpec) -> tuple[str, ...]:
        """Of a string, those of the examples: others would hardly mean anything."""
        given = [str(v.value) for e in self.spec.examples for name, v in e.given if name == p.name]
        return tuple(dict.fromkeys([*given, *([p.default.value] if isinstance(p.default, Str) else [])]))

    def _draw(self, p: ParamSpec) -> str:
        base = p.kind.base
        if base in ("int", "number"):
            return self._int(p)
        if base == "bool":
            return "d.truth()"
        if base == "float":
            default = literal(p.default) if p.default is not None else None
            drawn = f"d.real({default!r})" if isinstance(default, (int, float)) else "d.real(None)"
            return f"abs({drawn})" if self.wants.not_negative(p.name) else drawn
        if base == "str":
            return f"d.member({tuple_text(map(quoted, self._texts(p)))})"
        if base == "enum":
            return f"d.member({tuple_text(map(quoted, p.kind.members))})"
        if base == "dtype":
            return f"d.member({tuple_text(map(quoted, dtypes(p)))})"
        if base == "axis":
            return f"d.free_axis({self._rank(self.spec.inputs[0])})"
        if base == "axes":
            return self._axes(p)
        if base == "ints":
            return self._ints(p)
        if base == "floats":
            return f"tuple(d.real(1.0) for _ in range({self._count(p)}))"
        raise NotExecuted(p, f"a random call with a parameter of kind {base}")

    def _int(self, p: ParamSpec) -> str:
        any_other = "d.positives(1)[0]" if self.wants.positive(p.name) else "d.integer()"
        if (of := self.wants.divides(p.name, lambda e: free_names(e) <= self.drawn)) is not None:
            return f"d.divisor({self._said(of)})"
        drawn = self._mostly(Name(p.name), any_other)
        if drawn != any_other:
            return drawn
        found = self.wants.bounds(Name(p.name), lambda e: free_names(e) <= self.drawn)
        if found is None or found.high is None or (isinstance(found.high, Int) and isinstance(found.low, Int)):
            return drawn
        low = self._said(found.low) if found.low is not None else "None"
        return f"d.between({low}, {self._said(found.high)})"

    def _axes(self, p: ParamSpec) -> str:
        rank = self._rank(self.spec.inputs[0]) if self.spec.inputs else "3"
        if p.of is not None and p.name in free_names(p.of):
            self.code.add("more = d.length(2)")
            return f"d.axes(more, {rank} + more)"
        if p.kind.length is not None:
            return f"d.axes({self._count(p)}, {rank})"
        self.code.add(f"some = d.length({rank})")
        return f"d.axes(some, {rank})"

    def _ints(self, p: ParamSpec) -> str:
        total = self._sums_to(p.name)
        if total is not None and free_names(total) <= self.drawn:
            return f"d.partition({self._said(total)})"
        if (alike := self.wants.like(p.name, lambda e: free_names(e) <= self.drawn)) is not None:
            vector, others = alike
            return f"d.like({self._said(vector)}, {tuple_text(map(self.text.text, others))})"
        if self.spec.view and p.kind.length is not None and isinstance(p.kind.length, Name):
            return f"d.regrouped({self._first_shape()})"
        between = self.wants.bounds(Name(p.name), lambda e: self._known(e, Name(p.name)))
        if between is not None and not (between.high is None and isinstance(between.low, Int)):
            return self._each_between(between, self._count(p))
        kind = "positives" if self.wants.positive(p.name) else "sizes" if self.wants.not_negative(p.name) else "ints"
        return self._mostly_equal(p.name, f"d.{kind}({self._count(p)})")

    def _first_shape(self) -> str:
        pieces = self.spec.inputs[0].signature.pieces
        match pieces:
            case (Run(name),):
                return local(name)
        raise NotExecuted(self.spec, "a random shape for this signature")

    def _sums_to(self, name: str) -> Expr | None:
        for s in self.wants.parts:
            match s:
                case Compare(Call("sum", (Name(id),), ()), (("==", total),)) if id == name:
                    return total
        return None
