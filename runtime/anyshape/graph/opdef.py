"""What a generated op is: `anyshape_ops` makes one OpDef per variant from a spec, and everything else reads it.

An op with parameters that shape its output has two OpDefs, `static.name` (they are attributes) and `dyn.name` (operands),
each the other's `twin`; both share relation and kernel. Any other op has one, called `name`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from anyshape.dtypes import DType, highest, lowest
from anyshape.equations import Equations
from anyshape.rules import Bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anyshape.dims import Facts
    from anyshape.graph.composition import Composition
    from anyshape.graph.infer import Inference
    from anyshape.graph.value import Node, Value
    from anyshape.rules.vec import Truth

Relation = Callable[..., Bound]
"""relation(r: Rule, *, <input>=Vec (its shape; a list of Vec if variadic), <param>=value) -> Bound"""

KernelBuilder = Callable[[Equations, Bound], None]
"""kernel(eqs, b): states the equations of eqs.outputs; b is what the relation bound"""


@dataclass(frozen=True, slots=True)
class InputDef:
    """An operand that is data. `dtype` is a dtype's name or a variable of OpDef.dtypes."""

    name: str
    dtype: str
    optional: bool = False
    default: int | float | bool | str | None = None
    """The constant that every read of an absent optional input gives; `lowest` and `highest` are those of its dtype."""
    variadic: bool = False
    _: KW_ONLY
    sequence: bool = False
    """Whether a list may stand for the tensors of a variadic input."""

    def absent(self, dtype: DType) -> int | float | bool:
        """The value that reads of an absent input give."""
        if isinstance(self.default, str):
            return {"lowest": lowest, "highest": highest}[self.default](dtype)
        return self.default if self.default is not None else 0


@dataclass(frozen=True, slots=True)
class ParamDef:
    """A parameter: an attribute, or (`operand`) a run-time value. `kind` as in the spec: ints, axes, axis, int, float …"""

    name: str
    kind: str
    required: bool = True
    default: Any = None
    """A literal default; None where it is absent, or computed by the relation."""
    members: tuple[str, ...] = ()
    _: KW_ONLY
    operand: bool = False

    @property
    def is_vector(self) -> bool:
        return self.kind in ("ints", "axes", "floats", "strs")

    @property
    def is_size(self) -> bool:
        """Whether it is an integer, or integers, that a size may stand for."""
        return self.kind in ("int", "ints")


@dataclass(frozen=True, slots=True)
class OutputDef:
    """`dtype` is a dtype's name, a variable, or `param:<name>` for the dtype that a parameter says."""

    name: str
    dtype: str
    variadic: bool = False


@dataclass(frozen=True, slots=True)
class RewriteDef:
    """One rewrite of the spec, as a generated function: a new value in place of the node's output, or None."""

    text: str
    apply: Callable[..., Any]
    source: str = ""
    depth: int = 1
    """the nesting of calls in the pattern"""
    operands: tuple[str, ...] = ()
    """Ops whose calls the pattern has as operands: it matches them where they are folded, too."""


@dataclass(frozen=True, slots=True)
class AlgorithmDef:
    """An op by which the results of another can be computed: `applies` says to which calls, of what the relation bound, if their input
    `constant` is one. The bound of its errors is `growth` times that of the sum itself."""

    op: str
    applies: Callable[[Any, Bound], Any]
    constant: str
    growth: float


class Control(Protocol):
    """What an op with regions means. Its inputs are values, then its operands; the last of the values are captured, and are the last
    parameters of every region."""

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the regions, in order."""

    @property
    def repeats(self) -> bool:
        """Whether the one region runs again and again; else one of the regions runs."""

    def captures_from(self, node: Node) -> int:
        """The place of the first captured value among the inputs."""

    def captured(self, node: Node) -> tuple[Value, ...]:
        """The values of the surroundings that the regions read."""

    def infer(self, node: Node, facts: Facts | None) -> Inference:
        """Types of the results, and the regions typed for the node's inputs."""

    def simplify(self, node: Node) -> Sequence[Value] | None:
        """The results, if the operands decide them."""

    def assumed(self, node: Node, k: int) -> Truth:
        """A condition that holds whenever region k runs."""

    def may_skip(self, node: Node, k: int) -> bool:
        """Whether a run may leave region k out, so that it may also be impossible."""


class Structure(Protocol):
    """What an op means that makes lists of tensors, or takes them apart. It has no equations; the program has instructions for it."""

    def infer(self, node: Node) -> Inference:
        """Types of the results."""

    def simplify(self, node: Node) -> Sequence[Value] | None:
        """The results, if the known contents of lists decide them."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OpDef:
    """One variant of an op, as the generator declares it. Compared by identity; `full_name` is unique."""

    name: str
    variant: str
    inputs: tuple[InputDef, ...]
    params: tuple[ParamDef, ...]
    outputs: tuple[OutputDef, ...]
    dtypes: Mapping[str, tuple[str, ...]]
    """The allowed dtypes of each dtype variable, by name, in the order of the spec."""
    relation: Relation
    kernel: KernelBuilder | None = None
    view: Mapping[str, str] = field(default_factory=dict)
    """{output: input}: the output is the same elements in the same order, so the same buffer."""
    summary: str = ""
    source: str = ""
    traits: tuple[str, ...] = ()
    rewrites: tuple[RewriteDef, ...] = ()
    computed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Dtype variables that follow from others: {"U": ("accum", "T")} or {"R": ("promote", "T", "U")}; ("bitcast", "T", "param:to")
    reads a parameter."""
    moves: tuple[str, ...] = ()
    """Dtype variables with whose elements the op does nothing but read them and put them somewhere: they may be of any dtype."""
    moves_where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The modes in which the elements of `moves` are only moved, where it is not in all: {attribute: its values}."""
    shaping: tuple[str, ...] = ()
    """Operand parameters of which nothing counts but the sizes of the outputs that they give."""
    control: Control | None = None
    """The meaning of an op with regions."""
    structure: Structure | None = None
    """The meaning of an op on lists."""
    composition: Composition | None = None
    """The body of an op that is calls of other ops."""
    algorithms: tuple[AlgorithmDef, ...] = ()
    """Ops that the compiler may call in place of this one."""

    @property
    def full_name(self) -> str:
        return f"{self.variant}.{self.name}" if self.variant else self.name

    @property
    def sequence(self) -> int | None:
        """The place of the input for which a list may stand."""
        return next((k for k, i in enumerate(self.inputs) if i.sequence), None)

    @property
    def is_random(self) -> bool:
        """Whether equal calls give different results: such a node is made as often as the model says, and when it runs."""
        return "random" in self.traits

    @property
    def is_for_finite(self) -> bool:
        """Whether only calls on finite numbers have the results that the reference gives: others may have more that are NaN."""
        return "finite" in self.traits

    @property
    def asserts_dims(self) -> bool:
        """Whether a call is its only input, whose dims are asserted to be the elements of its only operand."""
        return "asserts_dims" in self.traits

    @property
    def attributes(self) -> tuple[ParamDef, ...]:
        return tuple(p for p in self.params if not p.operand)

    @property
    def operands(self) -> tuple[ParamDef, ...]:
        """Parameters that follow the inputs as operands of the node."""
        return tuple(p for p in self.params if p.operand)

    def moved(self, attrs: Mapping[str, Any]) -> tuple[str, ...]:
        """The dtype variables whose elements a call with these attributes only moves."""
        defaults = {p.name: p.default for p in self.params}
        held = all(attrs.get(name, defaults[name]) in values for name, values in self.moves_where.items())
        return self.moves if held else ()

    @property
    def twin(self) -> str | None:
        return {"static": f"dyn.{self.name}", "dyn": f"static.{self.name}"}.get(self.variant)
