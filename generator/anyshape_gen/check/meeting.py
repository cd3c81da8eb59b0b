"""Checks that elements which meet in an operation are of one dtype, for every choice of dtypes that the signature allows.

In: an analysed op. Out: findings; all but literals, sizes and positions meets by a cast alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product

from anyshape.dtypes import accum, bitcast, is_dtype_name, parse_dtype, promote
from anyshape.errors import DtypeError
from anyshape_gen.model.analysis import OpAnalysis, Role, ValueKind
from anyshape_gen.model.body_nodes import Branch, For, Set, While
from anyshape_gen.model.nodes import Call, Exact, Expr, Fit, Flat, Generator, Name, Node, Over, Placed, Star, TensorRead
from anyshape_gen.model.printer import to_text
from anyshape_gen.model.source import Findings
from anyshape_gen.model.traverse import walk
from anyshape_gen.parse.values import DTYPES
from anyshape_gen.resolve.element_dtypes import FRACTION, PLACE, UNKNOWN, WEAK, ElementDtypes, wide
from anyshape_gen.resolve.kinds import kind_of


def check_meeting(a: OpAnalysis, findings: Findings) -> None:
    """Checks every equation, step and assert on elements of an op."""
    for conditions, indices, nodes, variables in _pieces(a):
        for dtypes in choices(a, _mentioned(a, [*conditions, *indices, *nodes])):
            checker = Meeting(a, dtypes, variables)
            if any(checker.holds(c) is False for c in conditions):
                continue
            for node in indices:
                checker.index(node)
            for node in nodes:
                checker.of(node)
            for node, words in checker.disagreements:
                findings.add(node.span, words)
            if checker.disagreements:
                break


def _pieces(a: OpAnalysis) -> Iterator[tuple[tuple[Expr, ...], Sequence[Node], list[Node], dict[str, str]]]:
    """Yields what is computed together: conditions that it depends on, indices of its target, expressions, variables with their dtypes."""
    for check in a.reading:
        yield (), (), [check.cond], {}
    if a.kernel is not None:
        for q in a.kernel.equations:
            variables = {v.name: WEAK if v.role is Role.ELEMENT else PLACE for v in q.vars}
            variables |= {t.name: PLACE for g in q.generators for t in g.targets}
            yield q.conditions, q.parts, [q.right], variables
        for unbacked in a.kernel.unbacked:
            yield (), (), [unbacked.value], {}
        for e in a.spec.kernel.equations if a.spec.kernel is not None else ():
            yield e.conditions, _ends(e), [], {}
    if a.procedure is not None:
        yield (), (), list(a.procedure.steps), {}


def _ends(e: Node) -> list[Node]:
    """Lists the ends of ranges as the spec has them; the analysis puts conditions in the place of those that are read."""
    domains = [n.domain for n in walk(e) if isinstance(n, Generator)]
    return [end for d in domains if isinstance(d, Call) and d.func == "range" for end in d.args]


def _mentioned(a: OpAnalysis, nodes: Iterable[Node]) -> set[str]:
    """Collects the dtype variables that some expressions depend on."""
    rules = {rule.var: rule for rule in a.spec.dtypes}
    tensors = {o.name: o.signature.dtype for o in (*a.spec.inputs, *a.spec.outputs)}
    names: set[str] = set()
    functions = [part for f in a.kernel_functions for part in (*f.body, f.result)]
    for node in (n for part in (*nodes, *functions) for n in walk(part)):
        match node:
            case TensorRead(tensor) if tensor in tensors:
                names.add(tensors[tensor])
            case TensorRead():
                return set(rules)
            case Name(id) | Call(func=id):
                names.add(id)
    for name in list(names & set(rules)):
        expr = rules[name].expr
        names |= {n.id for n in walk(expr) if isinstance(n, Name)} if expr is not None else set()
    return names & set(rules)


def choices(a: OpAnalysis, variables: set[str]) -> Iterator[dict[str, str]]:
    """Yields every choice of dtypes of the `variables`, with the dtypes that follow from it."""
    drawn = {rule.var: rule.choices for rule in a.spec.dtypes if rule.choices and rule.var in variables}
    parameters = {p.name for p in a.spec.params if p.kind.base == "dtype"}
    chosen = {rule.expr.id for rule in a.spec.dtypes if isinstance(rule.expr, Name) and rule.var in variables}
    drawn |= dict.fromkeys(sorted(chosen & parameters), DTYPES)
    for values in product(*drawn.values()):
        dtypes = dict(zip(drawn, values))
        try:
            for rule in a.spec.dtypes:
                if rule.expr is not None and rule.var in variables:
                    dtypes[rule.var] = computed_dtype(rule.expr, dtypes)
        except (DtypeError, KeyError):
            continue  # no call is of such dtypes
        yield dtypes


def computed_dtype(e: Expr, dtypes: Mapping[str, str]) -> str:
    match e:
        case Name(id):
            return dtypes[id] if id in dtypes else str(parse_dtype(id))
        case Call(func, args, _):
            functions: Mapping[str, Callable[..., str]] = {"accum": accum, "promote": promote, "bitcast": bitcast}
            return str(functions[func](*(computed_dtype(x, dtypes) for x in args if isinstance(x, Name))))
    raise KeyError(to_text(e))


class Meeting(ElementDtypes):
    """The dtypes of expressions for one choice of dtypes; `disagreements` has the operations in which several meet."""

    def __init__(self, a: OpAnalysis, dtypes: Mapping[str, str], variables: Mapping[str, str]) -> None:
        held = {
            s.name: s.dtype
            for s in (*(a.kernel.scratch if a.kernel else ()), *(a.procedure.arrays if a.procedure else ()))
        }
        self.own = a.procedure.variables if a.procedure is not None else {}
        self.kernel = a.spec.kernel
        self.kinds = a.kinds
        super().__init__(a.spec, {**held, **self.own}, variables, dtypes)
        self.disagreements: list[tuple[Node, str]] = []

    # --- indices

    def index(self, node: Node) -> str:
        dtype = super().index(node)
        if isinstance(node, Exact | Fit | Flat | Placed | Star):
            return dtype
        if dtype == FRACTION or (is_dtype_name(dtype) and parse_dtype(dtype).is_float):
            text, where = self._shown(node)
            where = where if dtype in self.dtypes.values() else ""
            words = f"an index, or an end of a range, is an integer, but `{text}` is {_word(dtype)}{where}"
            self.disagreements.append((node, f"{words}: write `i64(…)` around it"))
        return dtype

    # --- operands that meet

    def met(self, node: Node, dtypes: Sequence[str]) -> str:
        return self._one(node, dtypes, {wide(d) for d in dtypes if d != WEAK})

    def _one(self, node: Node, dtypes: Sequence[str], strong: set[str]) -> str:
        """The dtype of an operation of operands of these dtypes; a finding where they are several."""
        if UNKNOWN in strong:
            return UNKNOWN
        if len(strong) > 1 and PLACE in strong and not strong & {"bool", "char"}:
            strong = strong - {PLACE}
        if FRACTION in strong and all(d == FRACTION or (is_dtype_name(d) and parse_dtype(d).is_float) for d in strong):
            strong = strong - {FRACTION} or {FRACTION}
        if len(strong) > 1:
            self._report(node, [d for d in dtypes if d != WEAK])
            return UNKNOWN
        return strong.pop() if strong else WEAK

    def either(self, dtypes: Sequence[str]) -> str:
        return dtypes[0] if len(set(dtypes)) == 1 else UNKNOWN

    def compared(self, node: Node, dtypes: Sequence[str]) -> None:
        strong = {wide(d) for d in dtypes if d != WEAK}
        if PLACE in strong and all(d == PLACE or (is_dtype_name(d) and parse_dtype(d).is_integer) for d in strong):
            strong -= {PLACE}
        self._one(node, dtypes, strong)

    def read_or(self, node: Node, dtype: str, outside: str) -> None:
        if outside not in (WEAK, FRACTION, UNKNOWN, dtype) and dtype != UNKNOWN:
            self._report(node, (dtype, outside))

    def truth(self, node: Expr) -> None:
        dtype = self.value(node)
        if dtype == WEAK:
            dtype = {ValueKind.INT: "an integer", ValueKind.FLOAT: "a float"}.get(kind_of(node, self.kinds), WEAK)
        if dtype not in (WEAK, UNKNOWN, "bool"):
            text, where = self._shown(node)
            where = where if dtype in self.dtypes.values() else ""
            self.disagreements.append(
                (node, f"a condition is a truth, but `{text}` is {_word(dtype)}{where}: compare it with a number")
            )

    def _report(self, node: Node, dtypes: Iterable[str]) -> None:
        names = list(dict.fromkeys(map(_word, dtypes)))
        text, where = self._shown(node)
        self.disagreements.append(
            (node, f"{' and '.join(names)} meet in `{text}`{where}: write `cast(value, dtype)` around one of them")
        )

    def _shown(self, node: Node) -> tuple[str, str]:
        """Returns the text of an expression, and words for the choice of dtypes."""
        mentioned = self._mentioned(node) & set(self.dtypes) or set(self.dtypes)
        chosen = [f"{var} is {self.dtypes[var]}" for var in sorted(mentioned)]
        text = self._written(node)
        for name in self.own:
            text = text.replace(f"{name}[()]", name)
        return text, f" where {' and '.join(chosen)}" if chosen else ""

    def _written(self, node: Node) -> str:
        """The text of an expression, as the spec has it where another was put in its place."""
        same = (n for e in (self.kernel.equations if self.kernel is not None else ()) for n in walk(e))
        return to_text(next((n for n in same if n.span == node.span and type(n) is type(node)), node))

    def _mentioned(self, node: Node) -> set[str]:
        """Collects the dtype variables that an expression mentions, by itself or by tensors that it reads."""
        names = {n.id if isinstance(n, Name) else n.func for n in walk(node) if isinstance(n, (Name, Call))}
        tensors = self.tensors | self.held
        return names | {tensors.get(n.tensor, "") for n in walk(node) if isinstance(n, TensorRead)}

    # --- steps

    def of(self, node: Node) -> str:
        match node:
            case Set(value=value):
                self.of(value)
                for target in node.targets:
                    for part in target.parts:
                        self.place(part)
                return UNKNOWN
            case For() | While() | Branch():
                self._step(node)
                return UNKNOWN
        return super().of(node)

    def _step(self, step: For | While | Branch) -> None:
        before = dict(self.variables)
        match step:
            case For(targets=targets, domain=domain, body=body):
                items = self.place(domain)
                self.variables |= {t.name: items if step.over is Over.ITEMS else PLACE for t in targets}
                if isinstance(domain, Call) and domain.func == "argsort":
                    self.variables |= {t.name: "i64" for t in targets}
            case While(cond=cond, limit=limit, body=body):
                self.truth(cond)
                self.place(limit)
            case Branch(cond=cond, then=then, other=other):
                known = self.holds(cond)
                self.truth(cond)
                body = (*(then if known is not False else ()), *(other if known is not True else ()))
        for s in body:
            self.of(s)
        self.variables = before


def _word(dtype: str) -> str:
    return "i64" if dtype == PLACE else dtype
