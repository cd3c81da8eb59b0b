"""Types of values: tensors (a dtype and a list of dims, or a dtype alone where even the rank is unknown), and lists of them."""

from anyshape.types.list_type import DIFFERS, ListType, list_of
from anyshape.types.tensor_type import TensorType
from anyshape.types.text import parse_type

__all__ = ["DIFFERS", "ListType", "TensorType", "list_of", "parse_type"]
