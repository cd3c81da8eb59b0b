"""What members of onnxruntime's enumerations are: numbers wherever an integer is expected, and equal to them."""

from __future__ import annotations

from enum import Enum


class IntegerValued(Enum):
    """An enumeration of integers."""

    def __int__(self) -> int:
        return int(self.value)

    __index__ = __int__

    def __hash__(self) -> int:
        return hash(self.value)


class EqualToIntegers(IntegerValued):
    """An enumeration of integers whose members equal them."""

    def __eq__(self, other: object) -> bool:
        return self is other if isinstance(other, type(self)) else bool(self.value == other)

    __hash__ = IntegerValued.__hash__
