"""Tensor types: a dtype and a list of dims, or a dtype alone where even the rank is unknown."""

from anyshape.types.tensor_type import TensorType
from anyshape.types.text import parse_type

__all__ = ["TensorType", "parse_type"]
