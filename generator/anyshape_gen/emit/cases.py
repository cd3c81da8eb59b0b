"""Random calls: the function that draws one, read off a signature.

In: an op's analysis. Out: the text of `<op>_case`, which draws shapes by the signature (a name is drawn once), then params by their kinds,
mostly such as the asserts allow. Draws that break an assert are rejected by the relation, not here.
"""

from __future__ import annotations

from anyshape_gen.analysis_model import OpAnalysis
from anyshape_gen.emit.case_text import dtypes, given, local, run_of, takes_away, there
from anyshape_gen.emit.module import Code, quoted, tuple_text
from anyshape_gen.emit.refusal import NotExecuted
from anyshape_gen.emit.relations import literal
from anyshape_gen.emit.rule_text import RuleText, source_of
from anyshape_gen.emit.wants import Wants
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
    Comprehension,
    Expr,
    Int,
    Name,
    NoneLit,
    Str,
    TensorRead,
)
from anyshape_gen.traverse import free_names, walk, walk_all


def case(a: OpAnalysis) -> str:
    """The function of one op."""
    return _Case(a).emit()


class _Case:
    """Writes the function that draws a call."""

    def __init__(self, a: OpAnalysis) -> None:
        self.a, self.spec = a, a.spec
        self.code = Code()
        self.drawn: set[str] = set()
        self.text = RuleText(a.kinds, rename=local, trusted=True)
        self.params: dict[str, ParamSpec] = {p.name: p for p in self.spec.params}
        self.joint = self._joint()
        self.wants = Wants(a.rule)
        self.early: set[str] = set()
        """Params that something else was drawn by: None would not stand for them."""
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
        ranges = self._ranges()  # with a default in place of what was drawn they would be those of another dim
        params = ", ".join(
            f"{quoted(p.name)}: {given(p, bool(ranges), p.name in self.early)}" for p in self.spec.params
        )
        words = [f"{{{listed}}}", f"{{{params}}}"]
        if ranges:
            words.append(f"{{{', '.join(ranges)}}}")
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
                if name not in self.drawn:
                    self._new(name, self._mostly(Name(name), f"d.dim({quoted(name)})", size=True))
                return local(name)
            case Run(name, length):
                self._new(name, self._run(name, length))
                if isinstance(length, Name) and length.id in self.params and length.id not in self.drawn:
                    self._length(o, length.id, name)
                elif isinstance(length, Name) and length.id not in self.params:  # a dim: as long as the run is
                    self._new(length.id, f"len({local(name)})")
                return f"*{local(name)}"
            case DimExpr(expr):
                return self.text.text(expr)
            case RunExpr(expr):
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
        if length is not None and not isinstance(length, Name) and free_names(length) <= self.drawn:
            count = self.text.text(length)
            draws = (
                f"d.positives({count})"
                if self.wants.positive(name)
                else f"d.dim({quoted(name)}) for _ in range({count})"
            )
            return f"Vec({draws})"
        for s in self.wants.parts:
            match s:
                case Compare(Name(id), (("==", Int(value)),)) if id == name:
                    return f"d.repeated({value})"
                case Compare(Call("prod", (Name(id),), ()), (("==", Int(1)),)) if id == name:
                    return "d.repeated(1)"
                case Call("broadcasts", (Name(id), to), ()) if id == name and free_names(to) <= self.drawn:
                    return f"d.broadcasting_to({self.text.text(to)})"
        count = self._mostly(Call("len", (Name(name),)), "d.length(3)", size=True)
        return f"d.run({quoted(name)})" if count == "d.length(3)" else run_of(name, count)

    def _mostly(self, subject: Expr, any_other: str, size: bool = False) -> str:
        """A draw of what the asserts want of the subject, and rarely of any other."""
        values = self.wants.values(subject, lambda e: self._known(e, subject))
        if not values:
            return any_other
        for v in values:
            self._draw_first(v)
        words = [any_other if v is None else self._value(v, size) for v in values]
        return f"d.mostly({tuple_text(words)}, lambda: {any_other})"

    def _value(self, e: Expr, size: bool) -> str:
        """Its text; of a size no negative number."""
        if not size or not (free_names(e) & set(self.params) or takes_away(e)):
            return self.text.text(e)
        return f"max(0, {self.text.text(e)})"

    def _known(self, e: Expr, subject: Expr) -> bool:
        """Whether all of its names are drawn, or are numbers that can be drawn first."""
        plain = {
            n for n, p in self.params.items() if p.kind.base in ("int", "bool", "number") and p.kind.length is None
        }
        return free_names(e) <= self.drawn | (plain - free_names(subject) if plain else set())

    def _draw_first(self, e: Expr | None) -> None:
        for name in sorted(free_names(e) - self.drawn if e is not None else ()):
            self._param(self.params[name])
        self.early |= free_names(e) & set(self.params) if e is not None else set()

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
                self._new(name, run_of(name, f"d.mostly(({self.position[axis]},), lambda: d.length(3))"))

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
            self._new(p.name, self._draw(p))

    def _count(self, p: ParamSpec) -> str:
        """How many items a list has: an open name is drawn with the first list that needs it."""
        length = p.kind.length
        if length is None:
            return "d.length(3)"
        if isinstance(length, Name):
            self._new(length.id, f"d.length({self._most(length.id)})")
        return self.text.text(length)

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
            return self._mostly(Name(p.name), "d.positives(1)[0]" if self.wants.positive(p.name) else "d.integer()")
        if base == "bool":
            return "d.truth()"
        if base == "float":
            default = literal(p.default) if p.default is not None else None
            return f"d.real({default!r})" if isinstance(default, (int, float)) else "d.real(None)"
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
            return f"d.partition({self.text.text(total)})"
        if self.spec.view and p.kind.length is not None and isinstance(p.kind.length, Name):
            return f"d.regrouped({self._first_shape()})"
        kind = "positives" if self.wants.positive(p.name) else "sizes" if self.wants.not_negative(p.name) else "ints"
        return f"d.{kind}({self._count(p)})"

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

    def _ranges(self) -> list[str]:
        """Inputs that the kernel uses as wrapped indices, or that an assert bounds: `"index": (-n, n)`."""
        found: dict[str, str] = {}
        for q in self.a.kernel.equations if self.a.kernel is not None else ():
            for node in walk(q):
                match node:
                    case Call("wrap", (TensorRead(tensor), n), _) if free_names(n) <= self.drawn:
                        size = self.text.text(n)
                        found[tensor] = f"{quoted(tensor)}: (-{size}, {size})"
                    case Call("wrap", (Comprehension(TensorRead(tensor)), n), _) if free_names(n) <= self.drawn:
                        size = f"min({self.text.text(n)}, default=1)"
                        found[tensor] = f"{quoted(tensor)}: (-{size}, {size})"
        for check in self.a.reading:
            for node in walk(check.cond):
                match node:
                    case Compare(low, (("<=", TensorRead(tensor)), ("<" | "<=" as op, high))) if free_names(
                        low
                    ) | free_names(high) <= self.drawn | set(self.params):
                        more = " + 1" if op == "<=" else ""
                        found[tensor] = f"{quoted(tensor)}: ({self.text.text(low)}, {self.text.text(high)}{more})"
        return list(found.values())
