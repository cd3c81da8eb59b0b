"""shape_heavy: six blocks of shape arithmetic and data movement; batch and length dynamic; opset 17.

Comes in: nothing, there are no weights. Goes out: an ONNX file of some 20 kB. Every reshape, slice, range and
expand takes its operand from Shape by Gather, Div, Unsqueeze and Concat, as in graphs exported from torch, so that
the time is an engine's overhead per op. At length 1 one of the two slices is empty. Each block ends in one
addition.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.models import Arrays

WIDTH, HEADS, BLOCKS = 64, 4, 6
SHAPES = [(1, 1), (1, 2), (1, 7), (1, 32), (2, 1), (2, 33), (3, 5), (4, 64), (8, 16), (5, 100), (16, 17), (1, 128)]
PEERS = ("iree",)


class _Builder:
    """Nodes in order; every method adds one and returns the name of its output."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = {}

    def add(self, op: str, *operands: str, **attributes: int | list[int] | onnx.TensorProto) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(operands), [name], name=name, **attributes))
        return name

    def integers(self, *values: int) -> str:
        """A one-dimensional int64 constant."""
        name = "ints_" + "_".join(map(str, values)).replace("-", "minus")
        self.constants[name] = numpy_helper.from_array(np.array(values, np.int64), name)
        return name

    def scalar(self, value: int) -> str:
        """An int64 constant of rank 0."""
        name = f"int_{value}"
        self.constants[name] = numpy_helper.from_array(np.array(value, np.int64), name)
        return name

    def size(self, x: str, axis: int) -> str:
        """Adds the nodes that read one dim of x, as a tensor of rank 0."""
        return self.add("Gather", self.add("Shape", x), self.scalar(axis), axis=0)

    def dims(self, *parts: str | int) -> str:
        """A shape from sizes and numbers."""
        pieces = [self.integers(p) if isinstance(p, int) else self.add("Unsqueeze", p, self.integers(0)) for p in parts]
        return self.add("Concat", *pieces, axis=0)

    def expanded(self, x: str, shape: str) -> str:
        """Expand where -1 in `shape` keeps a dim, in the form that torch exports."""
        fill = numpy_helper.from_array(np.array([1], np.int64))
        ones = self.add("ConstantOfShape", self.add("Shape", shape), value=fill)
        keeps = self.add("Equal", shape, self.add("Mul", ones, self.scalar(-1)))
        return self.add("Expand", x, self.add("Where", keeps, ones, shape))


def _block(b: _Builder, x: str) -> str:
    """[batch, length, WIDTH] to the same: split heads, swap the halves of the length, merge heads, add positions."""
    batch, length = b.size(x, 0), b.size(x, 1)
    split = b.add("Reshape", x, b.dims(batch, length, HEADS, WIDTH // HEADS))
    transposed = b.add("Transpose", split, perm=[0, 2, 1, 3])
    folded = b.add("Reshape", transposed, b.dims(b.add("Mul", batch, b.scalar(HEADS)), length, WIDTH // HEADS))
    half = b.add("Div", b.add("Add", length, b.scalar(1)), b.scalar(2))
    middle, end, axis = b.dims(half), b.dims(b.size(folded, 1)), b.integers(1)
    late = b.add("Slice", folded, middle, end, axis)
    early = b.add("Slice", folded, b.integers(0), middle, axis)
    swapped = b.add("Concat", late, early, axis=1)
    apart = b.add("Reshape", swapped, b.dims(batch, HEADS, length, WIDTH // HEADS))
    back = b.add("Transpose", apart, perm=[0, 2, 1, 3])
    merged = b.add("Reshape", back, b.dims(b.size(back, 0), b.size(back, 1), -1))
    places = b.add("Range", b.scalar(0), length, b.scalar(1))
    column = b.add("Unsqueeze", b.add("Cast", places, to=TensorProto.FLOAT), b.integers(0, 2))
    return b.add("Add", merged, b.expanded(column, b.dims(batch, -1, 1)))


def build(path: Path) -> Path:
    """Write the model."""
    b, y = _Builder(), "x"
    for _ in range(BLOCKS):
        y = _block(b, y)
    b.nodes.append(helper.make_node("Identity", [y], ["y"]))
    dims = ["batch", "length", WIDTH]
    graph = helper.make_graph(
        b.nodes,
        "shape_heavy",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)],
        list(b.constants.values()),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)
    return path


def inputs(batch: int, length: int, seed: int = 0) -> Arrays:
    """Numbers [batch, length, 64]."""
    return {"x": np.random.default_rng([seed, batch, length]).standard_normal((batch, length, WIDTH), dtype=np.float32)}
