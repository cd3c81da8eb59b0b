"""Types of values: tensors (a dtype and a list of dims, or a dtype alone where even the rank is unknown), lists of them, functions."""

from anyshape.types.function_type import FunctionType, function_type
from anyshape.types.list_type import DIFFERS, ListType, list_of
from anyshape.types.tensor_type import MOST_DIMS, TensorType
from anyshape.types.text import parse_type, parse_types

__all__ = [
    "DIFFERS", "MOST_DIMS", "FunctionType", "ListType", "TensorType", "function_type", "list_of", "parse_type",
    "parse_types"
]  # fmt: skip
