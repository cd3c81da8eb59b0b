"""Expressions of kernels as Python that calls `anyshape.equations.functions`.

In: resolved nodes. Out: text, and which names of the rule it reads (`used`). What depends on no index variable and no
tensor is a size or an attribute, and is printed as a rule; everything else is an expression of equations.
"""

from __future__ import annotations

from collections.abc import Mapping

from anyshape_gen.analysis_model import ValueKind
from anyshape_gen.emit.names import kernel_name
from anyshape_gen.emit.refusal import NotExecuted
from anyshape_gen.emit.relations import is_constant
from anyshape_gen.emit.rule_text import ADD, ATOM, LAZY, MUL, NEGATE, TERNARY, RuleText, Spelled
from anyshape_gen.nodes import (
    Along,
    BinOp,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Exact,
    Expr,
    Fit,
    Flat,
    Generator,
    IfExp,
    Index,
    Item,
    Name,
    Offset,
    Over,
    Part,
    Placed,
    Reduction,
    Slice,
    Star,
    Str,
    TensorRead,
    Unary,
    VecLit,
)  # fmt: skip
from anyshape_gen.numbering import chooses_tensor
from anyshape_gen.traverse import walk

UNARY = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "tanh": "tanh", "erf": "erf", "sin": "sin", "cos": "cos", "abs": "abs_",
    "floor": "floor", "ceil": "ceil", "round_even": "round_even", "trunc": "trunc",
}  # fmt: skip
_BITS = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")
_FUNCTIONS = {**UNARY, "max": "maximum", "min": "minimum", "trunc_div": "trunc_div", "fmod": "fmod", "clamp": "clamp",
              "wrap": "wrap", "reflect": "reflect", "pow": "pow_", "int": "int_",
              **{name: name for name in _BITS}}  # fmt: skip
_COMPARE = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_CLASSES = {"is_int": "is_integer", "is_float": "is_float", "is_narrow_float": "is_narrow_float", "is_bool": "is_bool"}
_FOLDED = ("sum", "prod", "max", "min", "any", "all")
_NESTABLE = ("sum", "prod", "max", "min", "any", "all", "count")
_VECTOR_CALLS = frozenset(("fill", "put", "range", "prefix", "sorted", "unique", "shape", "drop", "place", "unravel"))


class KernelText:
    """Prints in the scope of one equation. `variables`: index variables, True for a run of them."""

    def __init__(
        self,
        kinds: Mapping[str, ValueKind],
        attributes: frozenset[str],
        dtypes: Mapping[str, str],
        tensors: frozenset[str],
        functions: frozenset[str],
    ) -> None:
        self.kinds, self.dtypes, self.tensors, self.functions = kinds, dtypes, tensors, functions
        self.attributes = attributes
        self.variables: dict[str, bool] = {}
        self.shifted: dict[str, str] = {}
        """Variables that run from somewhere else than 0: what to write for them."""
        self.numbers: set[str] = set()
        """Variables that number the elements of a variadic: Python integers while the kernel is built."""
        self.conditional = False
        """Whether the equation stands under a static condition: then nothing of it may be computed in the relation."""
        self.unproved: frozenset[int] = frozenset()
        """The reads (`id`) that are tested when they are made."""
        self.hoisted: dict[str, Expr] = {}
        self.used: dict[str, None] = {}
        self.used_tensors: dict[str, None] = {}
        self.rules = RuleText(kinds, attributes, self.name, prefix="rules.", trusted=True)

    def name(self, id: str) -> str:
        if id in self.shifted:
            return self.shifted[id]
        if id in self.tensors:
            self.used_tensors[id] = None
        elif id not in self.variables and id in self.kinds:
            self.used[id] = None
        return kernel_name(id)

    def text(self, e: Expr) -> str:
        return self.spell(e)[0]

    def at_least(self, e: Expr, level: int) -> str:
        text, strength = self.spell(e)
        return text if strength >= level else f"({text})"

    def hoist(self, name: str, e: Expr) -> str:
        """A size for an extent; computed by the relation under that name where it takes more than a total function."""
        before, tensors = dict(self.used), dict(self.used_tensors)
        text = self.text(e)
        whole = any(isinstance(node, Call) and node.func == "shape" for node in walk(e))
        if "rule." not in text and not whole:
            return text
        self.used_tensors = tensors
        while self.hoisted.get(name, e) != e or name in self.kinds:
            name += "_"
        self.used = before
        self.hoisted[name] = e
        self.used[name] = None
        return kernel_name(name)

    # --- what is a size, what is a vector

    def is_size(self, e: Expr) -> bool:
        """Whether e depends on sizes and attributes only, and the rule language can compute it."""
        for node in walk(e):
            match node:
                case TensorRead():
                    return False
                case Name(id) if id in self.variables or id in self.shifted:
                    return False
                case BinOp("/" | "**", _, _):
                    return False
                case Call(func, _, _) if self.is_value_call(func) or func == "present":
                    return False
        return True

    def is_value_call(self, func: str) -> bool:
        known = func in UNARY or func in _BITS or func in self.functions or func in self.dtypes or func in _CLASSES
        return known or func in (
            "cast",
            "saturate",
            "trunc_div",
            "fmod",
            "lowest",
            "highest",
            "f32",
            "f64",
            "i32",
            "i64",
            "philox",
            "entropy",
        )

    def is_vector(self, e: Expr) -> bool:
        match e:
            case Name(id):
                return self.variables.get(id, self.kinds.get(id) in (ValueKind.VECTOR, ValueKind.TEXTS))
            case VecLit() | Comprehension():
                return True
            case BinOp(_, left, right):
                return self.is_vector(left) or self.is_vector(right)
            case Unary("-", operand):
                return self.is_vector(operand)
            case IfExp(_, then, other):
                return self.is_vector(then) or self.is_vector(other)
            case Index(_, (Slice(),)):
                return True
            case Index(_, (single,)) if not isinstance(single, (Star, Slice)):
                return self.is_vector(single)
            case Call(func, args, _):
                if func in _VECTOR_CALLS:
                    return True
                return (func in _FUNCTIONS or func in self.functions) and any(
                    not isinstance(x, (Star, Slice)) and self.is_vector(x) for x in args
                )
        return False

    # --- expressions

    def spell(self, e: Expr) -> Spelled:
        if self.is_size(e):
            return self.rules.spell(e)
        match e:
            case TensorRead():
                return self.read(e), ATOM
            case Name():
                return self.name(e.id), ATOM
            case Unary("-", operand):
                return f"-{self.at_least(operand, NEGATE)}", NEGATE
            case Unary(_, operand):
                match operand:
                    case Call("present", (x,), ()):
                        return f"{self.text(x)}.absent is not None", TERNARY  # type: ignore[arg-type]
                if self.is_static(operand):
                    return f"not {self.at_least(operand, NEGATE)}", TERNARY
                return f"not_({self.text(operand)})", ATOM
            case BinOp(op, left, right):
                return self._binary(op, left, right)
            case Compare(first, rest):
                return self._compare(e, first, rest)
            case BoolOp(op, items):
                if self.is_static(e):
                    return f" {op} ".join(self.at_least(x, NEGATE) for x in items), TERNARY
                return self._chain(f"{op}_", [self.text(x) for x in items]), ATOM
            case IfExp(cond, then, other):
                return self._conditional(cond, then, other)
            case Call():
                return self._call(e)
            case Reduction():
                return self._reduction(e), ATOM
            case Index(base, (single,)) if not isinstance(single, (Star, Slice)):
                return self._item(base, single)
        raise NotExecuted(e, f"{type(e).__name__.lower()} in a kernel")

    def _binary(self, op: str, left: Expr, right: Expr) -> Spelled:
        level = ADD if op in ("+", "-") else MUL
        if op == "**":
            return f"{self.at_least(left, ATOM)} ** {self.at_least(right, ATOM)}", MUL
        first = self.at_least(left, level)
        if self.is_size(left) and self.is_size(right):
            first = f"as_expr({self.text(left)})"
        return f"{first} {op} {self.at_least(right, level + 1)}", level

    @staticmethod
    def _chain(name: str, tests: list[str]) -> str:
        text = tests[-1]
        for test in reversed(tests[:-1]):
            text = f"{name}({test}, {text})"
        return text

    def _compare(self, e: Expr, first: Expr, rest: tuple[tuple[str, Expr], ...]) -> Spelled:
        sides = [first, *(x for _, x in rest)]
        if any(isinstance(x, Str) for x in sides) and len(rest) == 1:
            return f"({self.text(first)} {rest[0][0]} {self.text(rest[0][1])})", ATOM
        tests = []
        for (op, right), left in zip(rest, sides):
            if op not in _COMPARE:
                raise NotExecuted(e, f"`{op}` between elements")
            tests.append(f"{_COMPARE[op]}({self.text(left)}, {self.text(right)})")
        return self._chain("and_", tests), ATOM

    def is_static(self, e: Expr) -> bool:
        """Whether attributes, ranks and dtypes alone decide e, so that it is a Python bool."""
        match e:
            case Call(func, _, _) if func in _CLASSES or func == "present":
                return True
            case Compare(first, ((_, second),)) if isinstance(first, Str) or isinstance(second, Str):
                return True
            case Unary("not", operand):
                return self.is_static(operand)
            case BoolOp(_, items):
                return all(map(self.is_static, items))
        return self.rules.is_static(e)

    def _conditional(self, cond: Expr, then: Expr, other: Expr) -> Spelled:
        if self.is_static(cond):
            text = f"{self.at_least(then, ADD)} if {self.at_least(cond, TERNARY)} else {self.at_least(other, TERNARY)}"
            return text, TERNARY
        return f"where({self.text(cond)}, lambda: {self.text(then)}, lambda: {self.text(other)})", ATOM

    def _call(self, e: Call) -> Spelled:
        if e.keywords:
            raise NotExecuted(e, f"{e.func} with keywords")
        plain = [a for a in e.args if not isinstance(a, (Star, Slice))]
        if len(plain) != len(e.args):
            raise NotExecuted(e, f"a run as an argument of {e.func}")
        if e.func in _CLASSES:
            return f"{self.dtype_text(plain[0])}.{_CLASSES[e.func]}", ATOM
        if e.func == "present":
            return f"({self.text(plain[0])}.absent is None)", ATOM
        if e.func in ("inside", "ravel"):
            return f"{e.func}({self.run(plain[0])}, {self.run(plain[1])})", ATOM
        if e.func in ("cast", "saturate"):
            return f"{e.func}({self.text(plain[0])}, {self.dtype_text(plain[1])})", ATOM
        if e.func in ("lowest", "highest"):
            return f"{e.func}({self.dtype_text(plain[0])})", ATOM
        if e.func == "entropy":
            return "entropy()", ATOM
        if e.func in self.dtypes or e.func in ("f32", "f64", "i32", "i64"):
            inner = plain[0]
            if isinstance(inner, Call) and inner.func == "philox":
                given = ", ".join(self.text(a) for a in inner.args if not isinstance(a, (Star, Slice)))
                return f"philox({given}, {self.dtype_text(Name(e.func))})", ATOM
            return f"cast({self.text(plain[0])}, {self.dtype_text(Name(e.func))})", ATOM
        if e.func in self.functions:
            return f"{kernel_name(e.func)}({', '.join(map(self.text, plain))})", ATOM
        if e.func in _FUNCTIONS:
            return f"{_FUNCTIONS[e.func]}({', '.join(map(self.text, plain))})", ATOM
        raise NotExecuted(e, f"{e.func}() of elements")

    def dtype_text(self, e: Expr) -> str:
        """A dtype: a variable, a dtype parameter, or a name."""
        if not isinstance(e, Name):
            raise NotExecuted(e, "a computed dtype")
        return self.dtype_named(e.id)

    def dtype_named(self, name: str) -> str:
        if name in self.dtypes:
            return f'eqs.dtypes["{self.dtypes[name]}"]'
        if self.kinds.get(name) is ValueKind.DTYPE:
            return self.name(name)
        return f'parse_dtype("{name}")'

    def _item(self, base: Expr, position: Expr) -> Spelled:
        """An item of a vector: at a known position plainly, at an index variable by selection."""
        if self.is_size(position):
            return f"{self.at_least(base, ATOM)}[{self.text(position)}]", ATOM
        return f"item({self.text(base)}, {self.text(position)})", ATOM

    # --- reads

    def read(self, e: TensorRead) -> str:
        tensor = self.name(e.tensor)
        if e.element is not None:
            tensor = f"{tensor}[{self.text(e.element)}]"
        if e.outside is not None:
            tensor = f"pad({tensor}, {self.text(e.outside)})"
        read = f"checked({tensor})" if id(e) in self.unproved and e.outside is None else tensor
        text = f"{read}{self.index(e.parts)}"
        if e.absent is not None and not is_constant(e.absent):
            return f"({text} if {tensor}.absent is None else {self.text(e.absent)})"
        return text

    def index(self, parts: tuple[Part, ...]) -> str:
        items = [text for part in parts for text in self._part(part)]
        return f"[{', '.join(items)}]" if items else "[()]"

    def _part(self, part: Part) -> list[str]:
        match part:
            case Exact(items):
                return self.items(items)
            case Fit(items, extents):
                return [f"*fit({self._run(items)}, {self.text(extents)})"]
            case Placed(rest, picked, axes):
                return [f"*at({self._run(rest)}, {self._run(picked)}, {self.text(axes)})"]
            case Flat(items, factors):
                text = self.at_least(items[0], ADD)
                for item, factor in zip(items[1:], factors[1:]):
                    inner = text if text.isidentifier() else f"({text})"
                    text = f"{inner} * {self.at_least(factor, NEGATE)} + {self.at_least(item, MUL)}"
                return [text]
            case Offset(element, within, sizes):
                return [f"rules.prefix({self.text(sizes)})[{self.text(element)}] + {self.at_least(within, MUL)}"]
            case Along():
                return [":"]

    def items(self, items: tuple[Item, ...]) -> list[str]:
        found = []
        for item in items:
            match item:
                case Star(value, None):
                    found.append(f"*{self.run(value)}")
                case Star() | Slice():
                    raise NotExecuted(item, "this index")
                case _:
                    found.append(self.text(item))
        return found

    def _run(self, items: tuple[Item, ...]) -> str:
        """Several items as one tuple."""
        match items:
            case (Star(value, None),):
                return self.run(value)
        texts = self.items(items)
        return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"

    def run(self, e: Expr) -> str:
        """A vector of indices: a name, or a generator over the vectors in it, item by item."""
        whole = self._whole(e)
        if whole is not None:
            return whole
        leaves: dict[str, str] = {}
        text = self._itemwise(e, leaves)
        names = ", ".join(leaves.values())
        domain = next(iter(leaves)) if len(leaves) == 1 else f"zip({', '.join(leaves)})"
        return f"({text} for {names} in {domain})"

    def _whole(self, e: Expr) -> str | None:
        """A vector that is not made item by item from others; None for one that is."""
        if isinstance(e, Name) or self.is_size(e):
            return self.at_least(e, ATOM)
        match e:
            case VecLit(items):
                return self._run(items)
            case Call("put", (base, positions, items), ()) if not any(
                isinstance(x, (Star, Slice)) for x in (base, positions, items)
            ):
                put = self.run(items) if self.is_vector(items) else self.text(items)  # type: ignore[arg-type]
                return f"rules.put({self.run(base)}, {self.text(positions)}, {put})"  # type: ignore[arg-type]
            case Call("unravel", (position, extents), ()) if not isinstance(position, (Star, Slice)) and not isinstance(
                extents, (Star, Slice)
            ):
                return f"unravel({self.text(position)}, {self.run(extents)})"
            case Comprehension(element, (g,), ()) if len(g.targets) == 1 and g.over in (Over.EXTENT, Over.RANGE):
                return self._listed(element, g)
            case Index(base, (single,)) if not isinstance(single, (Star, Slice)):
                return f"tuple({self.run(base)}[p] for p in {self.text(single)})"
        return None

    def _listed(self, element: Expr, g: Generator) -> str:
        target = g.targets[0].name
        domain = f"range({self.text(g.domain)})" if g.over is Over.EXTENT else self.text(g.domain)
        return f"({self.text(element)} for {kernel_name(target)} in {domain})"

    def _itemwise(self, e: Expr, leaves: dict[str, str]) -> str:
        """e with each vector in it replaced by one of its items; leaves: {vector: name of its item}."""
        inner = KernelText(self.kinds, self.attributes, self.dtypes, self.tensors, self.functions)
        inner.used, inner.used_tensors, inner.variables = self.used, self.used_tensors, dict(self.variables)

        def replace(node: Expr) -> Expr:
            if not self.is_vector(node):
                return node
            match node:
                case BinOp(op, left, right):
                    return BinOp(op, replace(left), replace(right))
                case Unary(op, operand):
                    return Unary(op, replace(operand))
                case IfExp(cond, then, other):
                    return IfExp(cond, replace(then), replace(other))
                case Call(func, args, ()) if func in _FUNCTIONS or func in self.functions:
                    return Call(func, tuple(a if isinstance(a, (Star, Slice)) else replace(a) for a in args))
            whole = self._whole(node)
            if whole is None:
                raise NotExecuted(node, "this vector of indices")
            if whole not in leaves:
                stem = f"{whole.strip('_')}_" if whole.isidentifier() else "p"
                leaves[whole] = f"{stem}{'' if whole.isidentifier() else len(leaves)}"
            inner.variables[leaves[whole]] = False
            return Name(leaves[whole])

        return inner.text(replace(e))

    # --- reductions

    def _reduction(self, e: Reduction) -> str:
        if e.kind not in (*_NESTABLE, "argmax", "argmin", "first", "last"):
            raise NotExecuted(e, f"{e.kind} of elements")
        if chooses_tensor(e, e.generators[0]):
            return self._over_tensors(e, e.generators[0])
        single = len(e.generators) == 1 and e.generators[0].over in (Over.EXTENT, Over.RANGE)
        if (e.keywords or e.kind in ("first", "last")) and not (single and self.is_size(e.generators[0].domain)):
            raise NotExecuted(e, f"the last of equal ones, or the first, of more than one variable ({e.kind})")
        if e.keywords:
            last = "".join(f", {name}={self.text(value)}" for name, value in e.keywords)
            return self._fold(e.kind, e.generators, e.element, e.conditions)[:-1] + f"{last})"
        if self._is_partial(e.generators):
            return self._partial(e, e.generators[0])
        if len(e.generators) == 1 and e.generators[0].over is Over.ITEMS:
            return self._over_items(e, e.generators[0])
        if len(e.generators) > 1 and any(g.targets[0].run for g in e.generators[:-1]):
            if e.kind not in _NESTABLE:
                raise NotExecuted(e, f"{e.kind} over several runs")
            inner = Reduction(e.kind if e.kind != "count" else "sum", e.element, e.generators[1:], e.conditions)
            if e.kind == "count":
                raise NotExecuted(e, "count over several runs")
            return self._fold(e.kind, e.generators[:1], inner, ())
        return self._fold(e.kind, e.generators, e.element, e.conditions)

    def _is_partial(self, generators: tuple[Generator, ...]) -> bool:
        """A range whose ends depend on index variables, and on nothing that is read."""
        return (
            len(generators) == 1
            and generators[0].over is Over.RANGE
            and not self.is_size(generators[0].domain)
            and not any(isinstance(node, TensorRead) for node in walk(generators[0].domain))
        )

    def _partial(self, e: Reduction, g: Generator) -> str:
        assert isinstance(g.domain, Call)
        ends = [self.text(x) for x in g.domain.args if not isinstance(x, (Star, Slice))]
        low, high = ends if len(ends) == 2 else ("0", ends[0])
        before = dict(self.variables)
        name = kernel_name(g.targets[0].name)
        self.variables[g.targets[0].name] = False
        body = self.text(e.element)
        test = self._chain("and_", [self.text(c) for c in e.conditions]) if e.conditions else ""
        self.variables = before
        where = f", where=lambda {name}: {test}" if test else ""
        return f'reduce_range("{e.kind}", {low}, {high}, lambda {name}: {body}{where})'

    def _over_tensors(self, e: Reduction, g: Generator) -> str:
        """Over the tensors of a variadic: folded while the kernel is built."""
        if e.conditions or e.keywords or e.kind not in _FOLDED:
            raise NotExecuted(e, f"{e.kind} over some tensors" if e.conditions else f"{e.kind} over tensors")
        name = g.targets[0].name
        rest = e.generators[1:]
        element = Reduction(e.kind, e.element, rest, span=e.span) if rest else e.element
        self.numbers.add(name)
        text = f'fold("{e.kind}", ({self.text(element)} for {kernel_name(name)} in range({self.text(g.domain)})))'
        self.numbers.discard(name)
        return text

    def _over_items(self, e: Reduction, g: Generator) -> str:
        """Over the items of vectors, of which there are as many as a rank says: folded while the kernel is built."""
        if e.conditions or e.kind not in _FOLDED:
            raise NotExecuted(e, f"{e.kind} over some items of vectors" if e.conditions else f"{e.kind} of items")
        domains = g.domain.args if isinstance(g.domain, Call) and g.domain.func == "zip" else (g.domain,)
        texts = [self.run(x) for x in domains if not isinstance(x, (Star, Slice))]
        if len(texts) != len(g.targets):
            raise NotExecuted(g, "items taken apart in another way than `for a, b in zip(v, w)`")
        before = dict(self.variables)
        self.variables.update((target.name, False) for target in g.targets)
        names = ", ".join(kernel_name(target.name) for target in g.targets)
        body = self.text(e.element)
        self.variables = before
        domain = texts[0] if len(texts) == 1 else f"zip({', '.join(texts)})"
        return f'fold("{e.kind}", ({body} for {names} in {domain}))'

    def _fold(self, kind: str, generators: tuple[Generator, ...], element: Expr, conditions: tuple[Expr, ...]) -> str:
        return f'reduce_("{kind}", {self.loop(generators, element, conditions)})'

    def loop(self, generators: tuple[Generator, ...], element: Expr, conditions: tuple[Expr, ...]) -> str:
        """`extents, lambda names: element, where=lambda names: condition`."""
        before, shifted = dict(self.variables), dict(self.shifted)
        extents, names = [], []
        for g in generators:
            extent, name = self._domain(g)
            extents.append(extent)
            names.append(name)
        sizes = extents[0][1:] if len(extents) == 1 and extents[0].startswith("*") else f"[{', '.join(extents)}]"
        body = self.text(element)
        test = self._chain("and_", [self.text(c) for c in conditions]) if conditions else ""
        self.variables, self.shifted = before, shifted
        parameters = ", ".join(names)
        where = f", where=lambda {parameters}: {test}" if test else ""
        return f"{sizes}, lambda {parameters}: {body}{where}"

    def _domain(self, g: Generator) -> tuple[str, str]:
        """The extent, `*` before a vector of them, and the parameter of the lambda."""
        if len(g.targets) != 1 or g.over not in (Over.EXTENT, Over.EXTENTS, Over.RANGE):
            raise NotExecuted(g, "a reduction over the items of vectors")
        target = g.targets[0]
        if not self.is_size(g.domain):
            raise NotExecuted(g, "a reduction whose range depends on index variables")
        if g.over is Over.RANGE:
            return self._range(g, target.name)
        domain = self.at_least(g.domain, ATOM) if target.run else self.text(g.domain)
        self.variables[target.name] = target.run
        return (f"*{domain}", f"*{kernel_name(target.name)}") if target.run else (domain, kernel_name(target.name))

    def _range(self, g: Generator, name: str) -> tuple[str, str]:
        match g.domain:
            case Call("range", (stop,), ()) if not isinstance(stop, (Star, Slice)):
                extent = f"rule.max(0, {self.text(stop)})"
            case Call("range", (start, stop), ()) if not isinstance(start, (Star, Slice)) and not isinstance(
                stop, (Star, Slice)
            ):
                extent = f"rule.max(0, {self.text(stop)} - {self.at_least(start, MUL)})"
                self.shifted[name] = f"({kernel_name(name)} + {self.at_least(start, MUL)})"
            case _:
                raise NotExecuted(g, "a range with a step")
        self.variables[name] = False
        return extent, kernel_name(name)


__all__ = ["LAZY", "KernelText"]
