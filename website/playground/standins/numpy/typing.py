"""Types for annotations: nothing reads them."""

from __future__ import annotations

from typing import Any


class NDArray:
    """`NDArray[T]`, of which annotations and aliases are made."""

    def __class_getitem__(cls, item: Any) -> Any:
        return Any


ArrayLike = DTypeLike = Any
