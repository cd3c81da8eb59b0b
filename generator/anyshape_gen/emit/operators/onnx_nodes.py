"""Nodes of a function of ONNX, one written after another: constants, attributes, functions of elements that ONNX lacks.

In: names of values. Out: names of values. Each node has one result; constants and parameters are written once, in the operands' dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from onnx import AttributeProto, NodeProto, TensorProto, ValueInfoProto, helper

from anyshape_gen.emit.operators.onnx_frame import NotComposed
from anyshape_gen.model.nodes import Bool, Float, Int, Str, Unary
from anyshape_gen.model.spec import OpSpec, ParamSpec


@dataclass(frozen=True)
class Attribute:
    """How a parameter is an attribute: the attribute of Constant that takes it, its type, and that of its default."""

    constant: str
    type: AttributeProto.AttributeType
    python: Callable[[Any], Any]


ATTRIBUTES = {
    "float": Attribute("value_float", AttributeProto.FLOAT, float),
    "int": Attribute("value_int", AttributeProto.INT, int),
    "bool": Attribute("value_int", AttributeProto.INT, int),
    "axis": Attribute("value_int", AttributeProto.INT, int),
    "axes": Attribute("value_ints", AttributeProto.INTS, list),
    "enum": Attribute("value_string", AttributeProto.STRING, str),
}
"""Attributes by the kind of parameter"""


class Nodes:
    """The nodes of the function of one op."""

    def __init__(self, spec: OpSpec, taken: set[str]) -> None:
        """`taken`: names that no intermediate value may have."""
        self.written: list[NodeProto] = []
        self._taken = taken
        self._like = next((o.name for o in spec.inputs if o.signature.dtype != "bool"), "")
        self._params = {p.name: p for p in spec.params}
        self._numbers: dict[float | str, str] = {}
        """names of constants, by their values, and of parameters, by their names"""

    def fold(self, operator: str, values: Sequence[str]) -> str:
        """Values joined by an operator of two operands, from the left."""
        result = values[0]
        for v in values[1:]:
            result = self.node(operator, [result, v])
        return result

    def number(self, value: float) -> str:
        """A constant in the dtype of the operands."""
        if value not in self._numbers:
            exact = helper.make_tensor("", TensorProto.DOUBLE, [], [float(value)])
            self._numbers[value] = self.like(self.node("Constant", [], value=exact))
        return self._numbers[value]

    def param(self, name: str) -> str:
        """The value of a parameter, which equations compute with. Raises NotComposed for axes."""
        p = self._params[name]
        if p.name not in self._numbers:
            if p.kind.base in ("axis", "axes"):
                raise NotComposed(f"it computes with the number of the axis {p.name}")
            value = self.referred(name)
            match p.kind.base:
                case "bool":
                    value = self.node("Cast", [value], to=TensorProto.BOOL)
                case "float" | "int":
                    value = self.like(value)
            self._numbers[p.name] = value
        return self._numbers[p.name]

    def referred(self, name: str) -> str:
        """The attribute of a parameter as a value, of the type that attributes have."""
        p = self._params[name]
        if p.kind.base not in ATTRIBUTES or p.computed is not None:
            raise NotComposed(f"the parameter {p.name} is not a plain number")
        attribute = ATTRIBUTES[p.kind.base]
        value = self.node("Constant", [])
        self.written[-1].attribute.append(
            AttributeProto(name=attribute.constant, ref_attr_name=p.name, type=attribute.type)
        )
        return value

    def like(self, value: str) -> str:
        """The value in the dtype of the operands."""
        if not self._like:
            raise NotComposed("no operand says the dtype of a number")
        return self.node("CastLike", [value, self._like])

    def node(self, operator: str, inputs: Sequence[str], output: str = "", **attributes: object) -> str:
        """Writes a node, and gives the name of its result."""
        name = output or self.fresh()
        self.written.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def fresh(self) -> str:
        """A name that no value has."""
        name = f"v{len(self.written)}"
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def with_one_more(self, value: str, axes: str) -> tuple[str, str]:
        """A value with one more axis, the first, and the axes to squeeze together with that one: Squeeze without axes would drop all of
        size 1."""
        first, zero = self.node("Constant", [], value_ints=[0]), self.node("Constant", [], value_int=0)
        later = self.node("Add", [axes, self.node("Constant", [], value_int=1)])
        moved = self.node("Where", [self.node("Less", [axes, zero]), axes, later])
        return self.node("Unsqueeze", [value, first]), self.node("Concat", [first, moved], axis=0)

    def squeezed_unless(self, param: str, value: str, axes: str) -> str:
        """A value as it is where a parameter is true, and without some axes where it is not."""
        kept, squeezed = self.fresh(), self.fresh()
        branches = {}
        for name, operator, inputs, output in (
            ("then_branch", "Identity", [value], kept),
            ("else_branch", "Squeeze", [*self.with_one_more(value, axes)], squeezed),
        ):
            node = helper.make_node(operator, inputs, [output])
            branches[name] = helper.make_graph([node], name, [], [ValueInfoProto(name=output)])
        return self.node("If", [self.param(param)], **branches)

    def log1p(self, x: str) -> str:
        """log(1 + x) without the loss of digits near 0: with u = 1 + x rounded, log(u) * x / (u - 1), or log(u) where x is large, or x
        where it is tiny. W. Kahan, in HP-15C Advanced Functions Handbook, 1982, appendix."""
        one = self.number(1)
        u = self.node("Add", [one, x])
        log_u, less = self.node("Log", [u]), self.node("Sub", [u, one])
        is_tiny, is_large = self.node("Equal", [u, one]), self.node("Equal", [u, x])
        exact = self.node("Div", [self.node("Mul", [log_u, x]), less])
        return self.node("Where", [is_tiny, x, self.node("Where", [is_large, log_u, exact])])

    def expm1(self, x: str) -> str:
        """exp(x) - 1 without the loss of digits near 0: with u = exp(x) rounded, (u - 1) * x / log(u), u - 1 where u is 0 or large, or x
        where u is 1. W. Kahan; N. Higham, Accuracy and Stability of Numerical Algorithms, 2002, 1.14.1."""
        one = self.number(1)
        u = self.node("Exp", [x])
        less = self.node("Sub", [u, one])
        is_tiny = self.node("Equal", [u, one])
        is_plain = self.node("Or", [self.node("Equal", [less, u]), self.node("Equal", [less, self.number(-1)])])
        exact = self.node("Div", [self.node("Mul", [less, x]), self.node("Log", [u])])
        return self.node("Where", [is_tiny, x, self.node("Where", [is_plain, less, exact])])


def attribute_with_default(p: ParamSpec) -> AttributeProto | None:
    """The attribute of a parameter whose default is a number, a truth or a word; None: it has to be given."""
    match p.default:
        case Int(value) | Float(value) | Bool(value) | Str(value):
            default: float | str = value
        case Unary("-", Int(value) | Float(value)):
            default = -value
        case _:
            return None
    if p.kind.base not in ATTRIBUTES:
        raise NotComposed(f"the parameter {p.name} is not a plain number")
    return helper.make_attribute(p.name, ATTRIBUTES[p.kind.base].python(default))
