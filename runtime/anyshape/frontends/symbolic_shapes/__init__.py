"""`anyshape.shapes`: symbolic shapes of all values of an ONNX model, the conditions under which it is valid, and inverse questions."""

from anyshape.frontends.symbolic_shapes.inference import shapes
from anyshape.frontends.symbolic_shapes.result import Condition, DataSize, NamedDim, NamedType, Shapes, Sizes

__all__ = ["Condition", "DataSize", "NamedDim", "NamedType", "Shapes", "Sizes", "shapes"]
