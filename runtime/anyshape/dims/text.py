"""Dims and conditions as text that reads like Python, and back.

In: a Size or condition, or text and the symbols in scope. Out: `2*n + m`, `(n + 1) // 2`, `min(n, 3)`, `bcast(n, m)`,
`select(n == 0, 1, n)`, `n >= 1 and m != n`. The order of terms depends on names, not on the history of the process.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from anyshape.dims import atoms, conditions, division
from anyshape.dims.expr import REBUILD, Atom, Cond, Dim, Monomial, Size
from anyshape.dims.interning import MAX_DEPTH
from anyshape.dims.symbols import symbol
from anyshape.errors import ParseError

_INFIX = {"floordiv": " // ", "mod": " % "}


LONGEST, SHOWN = 4000, 3
"""An expression of more atoms than the first is shown in so many levels: `…` stands for what is deeper."""


def text(e: Any) -> str:
    """The text of an expression, which reads back unless it is too long: expressions share parts, and their text can be longer than they
    are by any factor."""
    if isinstance(e, Dim | Cond) and e.weight > LONGEST:
        return _outline(e, SHOWN)
    return _text(e)


def _text(e: Any) -> str:
    if isinstance(e, Dim):
        return _sum(e.terms)
    return _condition(e) if isinstance(e, Cond) else str(e)


def _outline(e: Any, levels: int) -> str:
    """The operations of the outermost levels."""
    if not isinstance(e, Dim) and not isinstance(e, Cond):
        return str(e)
    if not levels:
        return "…"
    atoms: Any = (a for m, _ in e.terms for a in m) if isinstance(e, Dim) else (e,)
    shown = [
        _name(a) if a.kind == "symbol" else f"{a.kind}({', '.join(_outline(x, levels - 1) for x in a.args)})"
        for a in atoms
    ]
    return f"{'+'.join(shown[:8])}{'+…' if len(shown) > 8 else ''}"


class _Recording(threading.local):
    recorded: list[Dim | Cond] | None = None
    """The expressions of a message that `template` is making."""
    anonymous: set[str] | None = None
    """The names of symbols nobody named that were printed as they are, which `anonymous_names` asks for."""
    exact = False


_recording = _Recording()
ANONYMOUS = re.compile(r"\?\d+|[^\W\d][\w?]*\.\d+|\?[\w?]*\.\d+")
"""What `fresh` calls symbols, and the text of a function sizes without a name"""
_ELEMENT = re.compile(r"([\w?]+)_(\d+)_\.\d+")
_UNNAMED = "v"
"""What symbols of elements are called after a value without a name."""
_UNUSUAL, _ESCAPED = re.compile(r"\W|^\d|^_(?=\W)"), re.compile(r"^_(?=\?)|\?([0-9a-f]+)\?")
"""Patterns of the characters of a value's name that no name of a symbol has, and of what stands for them there"""


def shown(e: Dim | Cond) -> str:
    """The result of str() and repr(), which people read: a symbol that nobody named is `s[0]` if it is an element of a value s, else `?`,
    any size. Its own name counts what the process has made; it is printed within `anonymous_names` alone, by what gives it another one.
    While `template` runs, a mark that stands for the expression."""
    if _recording.recorded is None:
        return text(e)
    _recording.recorded.append(e)
    return f"\0{len(_recording.recorded) - 1}\0"


def exact_text(e: Size | Cond) -> str:
    """The text with every symbol under its own name, which tells it from all others: an order or a key, and nothing for people."""
    before, _recording.exact = _recording.exact, True
    try:
        return text(e)
    finally:
        _recording.exact = before


def element_name(value: str, k: int) -> str:
    """What `fresh` is to call the symbol of element k of a value, which may have any name, or none."""
    plain = _UNUSUAL.sub(lambda m: f"?{ord(m.group()):x}?", value)
    return f"{'_' if plain.startswith('?') else ''}{plain or _UNNAMED}_{k}_"


def legible_name(name: str, other: str = "?") -> str:
    """What people read for a symbol that `fresh` gave this name; `other` for one that is no element of a value with a name."""
    m = _ELEMENT.fullmatch(name)
    if m is None or m.group(1) == _UNNAMED:
        return other
    value = _ESCAPED.sub(lambda c: chr(int(c.group(1), 16)) if c.group(1) else "", m.group(1))
    return f"{value}[{m.group(2)}]"


@contextmanager
def anonymous_names() -> Iterator[set[str]]:
    """Prints such names as they are inside, and gives those that were: text with them is reworded, or is the text of a function."""
    outer = _recording.anonymous
    _recording.anonymous = set() if outer is None else outer
    try:
        yield _recording.anonymous
    finally:
        _recording.anonymous = outer


def is_reworded() -> bool:
    """Whether the text that is made here is part of what is printed within `anonymous_names`."""
    return _recording.anonymous is not None


def _name(atom: Atom) -> str:
    name = atom.name
    if ("." in name or "?" in name) and not _recording.exact and ANONYMOUS.fullmatch(name):
        if _recording.anonymous is None:
            return legible_name(name)
        _recording.anonymous.add(name)
    return name


def template(message: Callable[[], str]) -> tuple[str | Dim | Cond, ...]:
    """A message as its pieces: plain text, and the expressions whose values belong between, to be filled in at
    run time."""
    outer, _recording.recorded = _recording.recorded, []
    try:
        pieces = message().split("\0")
        recorded = _recording.recorded
    finally:
        _recording.recorded = outer
    return tuple(recorded[int(p)] if k % 2 else p for k, p in enumerate(pieces) if p)


def _sum(terms: tuple[tuple[Monomial, int], ...]) -> str:
    words: list[str] = []
    for monomial, c in terms:
        sign = ("-" if c < 0 else "") if not words else (" - " if c < 0 else " + ")
        words.append(sign + _term(monomial, abs(c), grouped=sign == "-"))
    return "".join(words) or "0"


def _term(monomial: Monomial, c: int, grouped: bool = False) -> str:
    factors = [_atom(a, alone=len(monomial) == 1 and c == 1 and not grouped) for a in monomial]
    return "*".join(([str(c)] if c != 1 or not factors else []) + factors)


def _atom(atom: Atom, alone: bool) -> str:
    if atom.kind == "symbol":
        return _name(atom)
    if atom.kind in _INFIX:
        words = _INFIX[atom.kind].join(_operand(a) for a in atom.args)
        return words if alone else f"({words})"
    return f"{atom.kind}({', '.join(_text(a) for a in atom.args)})"


def _operand(e: Size) -> str:
    if isinstance(e, int):
        return str(e) if e >= 0 else f"({e})"
    atom = e.atom
    return _text(e) if atom is not None and atom.kind not in _INFIX else f"({_text(e)})"


def _condition(c: Cond) -> str:
    if c.kind in ("and", "or"):
        words = [f"({_text(a)})" if a.kind in ("and", "or") else _text(a) for a in c.args]
        return f" {c.kind} ".join(words)
    sign = {"eq": "==", "ge": ">=", "not": "!="}[c.kind]
    p = c.args[0].args[0] if c.kind == "not" else c.args[0]
    left = tuple((m, e) for m, e in p.terms if m and e > 0)
    right = tuple((m, -e) for m, e in p.terms if m and e < 0)
    number = p.constant
    if not left:  # a lone number reads better on the right
        left, right, sign, number = right, left, {">=": "<="}.get(sign, sign), -number
    if number:
        if number > 0 and right:
            left = (*left, ((), number))
        else:
            right = (*right, ((), -number))
    return f"{_sum(left)} {sign} {_sum(right)}"


_TOKEN = re.compile(r"\s*(?:(\d+)|(\?\d*|[A-Za-z_]\w*(?:\.\d+)?)|(//|==|!=|<=|>=|[-+*%<>(),]))")
_CALLS: dict[str, Callable[..., Any]] = {
    "min": atoms.minimum,
    "max": atoms.maximum,
    "bcast": atoms.bcast,
    "select": atoms.select,
    "ceil_div": division.ceil_div,
}
_COMPARE: dict[str, Callable[[Size, Size], Any]] = {
    "==": conditions.eq,
    "!=": conditions.ne,
    "<=": conditions.le,
    ">=": conditions.ge,
    "<": conditions.lt,
    ">": conditions.gt,
}


_CONDITIONAL = frozenset((*_COMPARE, "and", "or", "not", "True", "False"))


class _Parser:
    """Recursive descent over or, and, not, comparison, sum, product, sign, atom."""

    def __init__(self, source: str, lookup: Callable[[str], Size]) -> None:
        self.source, self.lookup = source, lookup
        self.tokens: list[tuple[str, int]] = []
        self.open = self.signs = 0
        position, end = 0, len(source.rstrip())
        while position < end:
            match = _TOKEN.match(source, position)
            if match is None:
                raise self.error("unexpected character", len(source) - len(source[position:].lstrip()))
            self.tokens.append((match.group(match.lastindex or 0), match.start(match.lastindex or 0)))
            self.limit_depth(self.tokens[-1])
            position = match.end()
        self.at = 0

    def limit_depth(self, token: tuple[str, int]) -> None:
        """Text that is nested deeper than any expression may be is refused before it is read, by recursion."""
        word, position = token
        self.open += (word == "(") - (word == ")")
        self.signs = self.signs + 1 if word in ("-", "not") else 0
        if self.open + self.signs > MAX_DEPTH:
            raise self.error(f"expressions may be nested {MAX_DEPTH} deep, this is deeper", position)

    def error(self, what: str, position: int | None = None) -> ParseError:
        if position is None:
            position = self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.source)
        return ParseError(f"{what} at column {position + 1}\n    {self.source}\n    {' ' * position}^")

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def take(self, *expected: str) -> str:
        token = self.peek()
        if not token or (expected and token not in expected):
            raise self.error(f"expected {' or '.join(map(repr, expected)) or 'a dim'}, got {token or 'the end'!r}")
        self.at += 1
        return token

    def whole(self, part: Callable[[], Any]) -> Any:
        value = part()
        if self.peek():
            raise self.error(f"unexpected {self.peek()!r}")
        return value

    def disjunction(self) -> Any:
        value = self.conjunction()
        while self.peek() == "or":
            self.take()
            value = conditions.or_(value, self.conjunction())
        return value

    def conjunction(self) -> Any:
        value = self.negation()
        while self.peek() == "and":
            self.take()
            value = conditions.and_(value, self.negation())
        return value

    def negation(self) -> Any:
        if self.peek() == "not":
            self.take()
            return conditions.not_(self.negation())
        return self.comparison()

    def comparison(self) -> Any:
        if self.peek() == "(" and self.groups_conditions():
            self.take()
            value = self.disjunction()
            self.take(")")
            return value
        if self.peek() in ("True", "False"):
            return self.take() == "True"
        left = self.sum()
        if self.peek() in _COMPARE:
            return _COMPARE[self.take()](left, self.sum())
        return left

    def groups_conditions(self) -> bool:
        """Whether the parenthesis here is around conditions, and does not start a sum: a comparison is in it, and no argument."""
        around: list[bool] = []
        for k in range(self.at, len(self.tokens)):
            word = self.tokens[k][0]
            if word == "(":
                around.append(k > self.at and self.tokens[k - 1][0] in _CALLS)
            elif word == ")":
                around.pop()
                if not around:
                    return False
            elif word in _CONDITIONAL and not any(around):
                return True
        return False

    def sum(self) -> Size:
        value = self.product()
        while self.peek() in ("+", "-"):
            sign = self.take()
            right = self.product()
            value = value + right if sign == "+" else value - right
        return value

    def product(self) -> Size:
        value = self.factor()
        while self.peek() in ("*", "//", "%"):
            sign = self.take()
            right = self.factor()
            value = (
                value * right
                if sign == "*"
                else division.floordiv(value, right)
                if sign == "//"
                else division.mod(value, right)
            )
        return value

    def factor(self) -> Size:
        token = self.peek()
        if token == "-":
            self.take()
            return -self.factor()
        if token == "(":
            self.take()
            value = self.sum()
            self.take(")")
            return value
        if token.isdigit():
            return int(self.take())
        if token in _CALLS and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1][0] == "(":
            return self.call()
        if not token or not (token[0].isalpha() or token[0] in "_?"):
            raise self.error(f"expected a dim, got {token or 'the end'!r}")
        value = self.lookup(token)
        self.take()
        return value

    def call(self) -> Size:
        name = self.take()
        self.take("(")
        args = [self.disjunction()]
        while self.peek() == ",":
            self.take()
            args.append(self.disjunction())
        self.take(")")
        size: Size = _CALLS[name](*args)
        return size


def _known(scope: Mapping[str, Size], parser_error: Callable[[str], ParseError]) -> Callable[[str], Size]:
    def lookup(name: str) -> Size:
        if name in scope:
            return scope[name]
        close = get_close_matches(name, scope, 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise parser_error(f"unknown symbol {name!r}{hint} In scope: {', '.join(scope) or 'nothing'}")

    return lookup


def parse_dim(source: str, scope: Mapping[str, Size]) -> Size:
    """The dim that `source` spells, its symbols taken from `scope`; raises ParseError with the column otherwise."""
    return _as_size(_parse(source, scope), source)


def _as_size(value: Size | bool | Cond, source: str) -> Size:
    if isinstance(value, bool | Cond):
        raise ParseError(f"expected a dim, got the condition {source!r}")
    return value


def parse_cond(source: str, scope: Mapping[str, Size]) -> conditions.Truth:
    value = _parse(source, scope)
    if value.__class__ not in (bool, Cond):
        raise ParseError(f"expected a condition, got the dim {source!r}")
    return value


def _parse(source: str, scope: Mapping[str, Size]) -> Any:
    parser = _Parser(source, lambda name: _known(scope, parser.error)(name))
    return parser.whole(parser.disjunction)


def declare(source: str, scope: MutableMapping[str, Size], low: int = 0) -> Size:
    """Parses a dim; a name that is not in scope becomes a symbol and enters it."""

    def lookup(name: str) -> Size:
        if name not in scope:
            scope[name] = symbol(name, low)
        return scope[name]

    parser = _Parser(source, lookup)
    return _as_size(parser.whole(parser.disjunction), source)


REBUILD.update({"text": shown, "exact text": exact_text})
