"""What generated property tests are made of: random calls of an op, its oracle, and the examples of its spec.

In: nothing. Out: types, and a mapping of properties by op. `anyshape_ops.strategies` makes one `Property` per op; `anyshape_testing`
supplies a `Draw` and runs the laws. Nothing here imports a test library, and a module of oracles is imported only when an op of it is
tested: they import libraries that are large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field
from importlib import import_module
from typing import Any, Protocol, TypeVar

from anyshape.rules import Vec

T = TypeVar("T")


class Draw(Protocol):
    """Random choices. Sizes come from a small pool, with 0 and 1 in it, so that equalities happen by chance."""

    def dim(self, name: str) -> int:
        """A size."""

    def run(self, name: str) -> Vec:
        """A few sizes, perhaps none."""

    def maybe(self, name: str, needed: bool) -> Vec:
        """Draws one size or, unless it is needed, none."""

    def broadcastable(self, n: int) -> tuple[Vec, ...]:
        """n runs that mostly broadcast."""

    def broadcasting_to(self, shape: Sequence[int]) -> Vec:
        """A run that mostly broadcasts to the shape."""

    def broadcast_of(self, shape: Sequence[int]) -> Vec:
        """A run to which the shape mostly broadcasts."""

    def each_of(self, values: Sequence[int], n: int | None = None) -> tuple[int, ...]:
        """n of them, or a few, each mostly one of the values."""

    def repeated(self, value: int) -> Vec:
        """Draws a run of mostly this size only."""

    def regrouped(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape with mostly the same number of elements, perhaps with a -1 or a 0 in it."""

    def partition(self, total: int) -> tuple[int, ...]:
        """Sizes that mostly sum to total."""

    def axis(self, position: int, rank: int) -> int:
        """The position, or the same counted from the end."""

    def free_axis(self, rank: int) -> int:
        """Draws an axis, mostly in range."""

    def axes(self, n: int, rank: int) -> tuple[int, ...]:
        """n different axes, each counted from the front or from the end."""

    def length(self, most: int) -> int:
        """A number of things, 0 to most."""

    def integer(self) -> int:
        """A small integer."""

    def ints(self, n: int) -> tuple[int, ...]:
        """n small integers."""

    def sizes(self, n: int) -> tuple[int, ...]:
        """n sizes, rarely a negative one."""

    def positives(self, n: int) -> tuple[int, ...]:
        """n small positive integers, rarely a 0."""

    def between(self, low: int | None, high: int | None) -> int:
        """A number mostly from low to high, the ends more often than what lies between; None: there is no such bound."""

    def each_between(
        self, n: int, low: int | Sequence[int] | None, high: int | Sequence[int] | None
    ) -> tuple[int, ...]:
        """n such numbers, each between bounds of all or of its own."""

    def like(self, values: Sequence[int], alternatives: Sequence[int]) -> tuple[int, ...]:
        """Draws mostly these values, with one of the alternatives in place of some."""

    def divisor(self, n: int) -> int:
        """A positive number that mostly divides n."""

    def multiple(self, n: int) -> int:
        """A size that is mostly a multiple of n."""

    def with_item(self, values: Sequence[int], k: int, item: int) -> Vec:
        """The values with another one at k, if there is one."""

    def real(self, default: float | None) -> float:
        """A number; near the default's magnitude if there is one."""

    def truth(self) -> bool:
        """True or False."""

    def member(self, members: Sequence[T]) -> T:
        """Draws a member of an enumeration."""

    def mostly(self, values: Sequence[T], other: Callable[[], T]) -> T:
        """Draws mostly one of the values, else any other."""

    def together(self, n: int) -> tuple[bool, ...]:
        """Draws which of n inputs are present: mostly all, or none."""

    def default(self, value: T) -> T | None:
        """The value, or None for the parameter's default or an absent input."""


@dataclass(frozen=True)
class Case:
    """A random call: shapes of inputs (None: absent; a list for a variadic one), params (None: the default)."""

    shapes: Mapping[str, Any]
    params: Mapping[str, Any]
    ranges: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Inputs that are indices: low <= value < high."""
    rising: Set[str] = frozenset()
    """Inputs of which no row falls, as the asserts want."""
    ends: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """Inputs whose first or last element has a value, as the asserts want."""


@dataclass(frozen=True)
class Given:
    """An input or output of an example: a shape, or literal values (and perhaps their dtype)."""

    shape: Any = None
    value: Any = None
    dtype: str | None = None

    @property
    def is_literal(self) -> bool:
        return self.shape is None


@dataclass(frozen=True)
class Example:
    """A call that a spec shows, and what must come out of it: outputs, or an error with this text."""

    inputs: Mapping[str, Given]
    params: Mapping[str, Any]
    outputs: Mapping[str, Given]
    error: str | None = None
    source: str = ""


@dataclass(frozen=True)
class Refusal:
    """An assert of a spec's rule: a regular expression of its whole message, and where it stands."""

    message: str
    source: str = ""


class BrokenReference(AssertionError):
    """A reference raised, or gave something that is no result of its op; its cause says what."""


@dataclass(frozen=True, repr=False)
class Property:
    """The generators and the oracle with which the laws of one op are tested."""

    op: str
    case: Callable[[Draw], Case]
    reference: Callable[..., Any]
    examples: tuple[Example, ...]
    source: str = ""
    _: KW_ONLY
    asserts: tuple[Refusal, ...] = ()
    reference_source: str = ""
    refuses: bool = True
    """Whether the rule refuses any shapes or parameters at all."""
    stepped: bool = False
    """Whether the op is a procedure, whose steps the interpreter executes one by one."""
    weak: Mapping[str, str] = field(default_factory=dict)
    """Laws that say too little of this op, by their number, each with the reason."""

    def __repr__(self) -> str:
        return f"Property({self.op})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The text that the test library prints whenever a call is rejected; the default one has every field, examples included."""
        printer.text(repr(self))


class PropertiesByOp(Mapping[str, Property]):
    """Properties that are loaded when somebody asks for them; the keys of `_known` are the ops that have any."""

    _known: Mapping[str, object]

    def __contains__(self, op: object) -> bool:
        return op in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


class LazyProperties(PropertiesByOp):
    """The properties of a generated package, which says by op where its Property is: a module of the package's folder and a name in it."""

    def __init__(self, room: str, modules: Mapping[str, str]) -> None:
        self._room, self._modules, self._known = room, modules, modules

    def __getitem__(self, op: str) -> Property:
        module, name = self._modules[op].split(".")
        prop: Property = getattr(import_module(f"{self._room}.{module}"), name)
        return prop

    def __repr__(self) -> str:
        return f"LazyProperties({self._room}: {', '.join(self)})"
