"""The names in scope in one equation, and the kind of each expression: a size, a vector, a value decided while the kernel is built.

In: resolved nodes. Out: kinds, and the names of the rule that are read (`used`); `kernel_text` emits the expressions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from anyshape_gen.emit.rules.rule_text import RuleText, Spelled
from anyshape_gen.emit.text.module import use
from anyshape_gen.emit.text.names import kernel_name
from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.functions import BITS, CASTS, UNARY
from anyshape_gen.model.nodes import (
    BinOp,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    Float,
    Generator,
    IfExp,
    Index,
    Int,
    Item,
    Name,
    Node,
    Over,
    Reduction,
    Slice,
    Star,
    Str,
    TensorRead,
    Unary,
    VecLit,
)
from anyshape_gen.model.traverse import children, walk

FUNCTIONS = {**{name: name for name in (*UNARY, *BITS, "trunc_div", "fmod", "clamp", "wrap", "reflect")},
             "abs": "abs_", "max": "maximum", "min": "minimum", "pow": "pow_", "int": "int_"}  # fmt: skip
CLASSES = {"is_int": "is_integer", "is_float": "is_float", "is_narrow_float": "is_narrow_float", "is_bool": "is_bool"}
_VECTOR_CALLS = frozenset(("fill", "put", "range", "prefix", "sorted", "unique", "shape", "drop", "place", "unravel"))


class KernelScope(ABC):
    """The scope of one equation. `variables`: index variables, True for a run of them."""

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
        """Variables that do not begin at 0, with the text of their values"""
        self.numbers: set[str] = set()
        """Variables that number the tensors of a variadic: Python integers while the kernel is built"""
        self.in_place = False
        """Whether an index or the end of a range is emitted, in which integers of all dtypes are i64"""
        self.narrow: frozenset[str] = frozenset()
        """Tensors whose elements may be integers other than i64"""
        self.unproved: frozenset[int] = frozenset()
        """The ids of the reads whose indices are checked at run time"""
        self.lazy: frozenset[int] = frozenset()
        """The ids of the reads that are evaluated only where operands of `and`, `or` left of them leave the result open"""
        self.hoisted: dict[str, Expr] = {}
        self.used: dict[str, None] = {}
        self.used_tensors: dict[str, None] = {}
        self.rules = RuleText(kinds, attributes, self.name, by_module=True, trusted=True)

    def name(self, id: str) -> str:
        if id in self.shifted:
            return self.shifted[id]
        if id in self.tensors:
            self.used_tensors[id] = None
        elif id not in self.variables and id in self.kinds:
            self.used[id] = None
        return kernel_name(id)

    def text(self, e: Item) -> str:
        return self.spell(e)[0]

    def at_least(self, e: Item, level: int) -> str:
        text, strength = self.spell(e)
        return text if strength >= level else f"({text})"

    def hoist(self, name: str, e: Expr) -> str:
        """Emits a size for an extent; the relation computes it, under that name, where it is more than a call of a total function."""
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

    @contextmanager
    def within(self, in_place: bool) -> Iterator[None]:
        """Emits what follows as parts of indices, or not."""
        before, self.in_place = self.in_place, in_place
        yield
        self.in_place = before

    @abstractmethod
    def spell(self, e: Item) -> Spelled:
        """Emits an expression, with its precedence."""

    def is_steady(self, e: Item) -> bool:
        """Whether e is the same for all elements, although it is no size, as is a variable of a procedure."""
        return False

    def steady_domain(self, g: Generator) -> tuple[str, str] | None:
        """Emits the extent of a loop whose ends are steady, and the parameter of its lambda."""
        return None

    def is_size(self, e: Item) -> bool:
        """Whether e depends on sizes and attributes only, and the rule language can compute it."""
        for node in walk(e):
            match node:
                case TensorRead():
                    return False
                case Name(id) if id in self.variables or id in self.shifted:
                    return False
                case BinOp("/", _, _):
                    return False
                case BinOp("**", _, _) if any(map(self._is_float, walk(node))):
                    return False
                case Call(func, _, _) if self.is_value_call(func) or func == "present":
                    return False
                case Reduction(_, _, generators) if any(map(self._goes_over_dims, generators)):
                    return False
        return True

    def _is_float(self, e: Node) -> bool:
        return isinstance(e, Float) or (isinstance(e, Name) and self.kinds.get(e.id) is ValueKind.FLOAT)

    def _goes_over_dims(self, g: Generator) -> bool:
        """Whether dims decide the number of iterations: such a loop is one of the kernel, any other is of the rule."""
        return g.over in (Over.EXTENT, Over.EXTENTS, Over.RANGE) and not self._is_known(g.domain)

    def _is_known(self, e: Node) -> bool:
        """Whether attributes and ranks alone decide it, so that it is a number when the kernel is built."""
        match e:
            case Int() | Call("len" | "rank", _, _):
                return True
            case Name(id):
                return id in self.attributes or id in self.numbers
            case BinOp() | Unary() | IfExp() | Compare() | Call("range" | "min" | "max" | "abs", _, _):
                return all(map(self._is_known, children(e)))
        return False

    def is_value_call(self, func: str) -> bool:
        known = func in UNARY or func in BITS or func in self.functions or func in self.dtypes or func in CLASSES
        return known or func in (
            "cast",
            "saturate",
            "bitcast",
            "trunc_div",
            "fmod",
            "lowest",
            "highest",
            *CASTS,
            "philox",
            "entropy",
        )

    def is_vector(self, e: Item) -> bool:
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
                return (func in FUNCTIONS or func in self.functions) and any(
                    not isinstance(x, (Star, Slice)) and self.is_vector(x) for x in args
                )
        return False

    def is_static(self, e: Item) -> bool:
        """Whether attributes, ranks and dtypes alone decide e, so that it is a Python bool."""
        match e:
            case Call(func, _, _) if func in CLASSES or func == "present":
                return True
            case Compare(first, ((_, second),)) if isinstance(first, Str) or isinstance(second, Str):
                return True
            case Compare() if is_of_extremes(e):
                return True
            case Unary("not", operand):
                return self.is_static(operand)
            case BoolOp(_, items):
                return all(map(self.is_static, items))
        return self.rules.is_static(e)


def is_of_extremes(e: Compare) -> bool:
    """Whether a comparison is of `lowest(T)` and `highest(T)` with each other or with numbers."""
    sides = [side.operand if isinstance(side, Unary) else side for side in (e.first, *(x for _, x in e.rest))]
    extremes = [isinstance(s, Call) and s.func in ("lowest", "highest") for s in sides]
    return any(extremes) and all(x or isinstance(s, (Int, Float)) for x, s in zip(extremes, sides))


def joined(s: KernelScope, op: str, items: Sequence[Expr]) -> str:
    """Emits `a and b and …` of elements, or the same with `or`: as choices where what is read on the right depends on the left."""
    texts = [s.text(x) for x in items]
    text = texts[-1]
    for k in reversed(range(len(items) - 1)):
        if any(id(n) in s.lazy for x in items[k + 1 :] for n in walk(x)):
            sides = f"lambda: {text}, False" if op == "and" else f"True, lambda: {text}"
            text = f"{use('where')}({texts[k]}, {sides})"
        else:
            text = f"{use(f'{op}_')}({texts[k]}, {text})"
    return text


def chain(name: str, tests: list[str]) -> str:
    """Nests calls of a binary function: `and_(a, and_(b, c))`."""
    text = tests[-1]
    for test in reversed(tests[:-1]):
        text = f"{use(name)}({test}, {text})"
    return text
