"""The typed SSA graph: ops, values, nodes, functions; inference, text form, verifier."""

from anyshape.graph.function import Function
from anyshape.graph.infer import build
from anyshape.graph.opdef import OpDef
from anyshape.graph.value import Node, Value, constant

__all__ = ["Function", "Node", "OpDef", "Value", "build", "constant"]
