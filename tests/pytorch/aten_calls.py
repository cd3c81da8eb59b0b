"""Random calls of ATen operators that torch takes, drawn from their schemas.

A call that torch refuses is drawn again. An operator whose arguments depend on each other has a form in `FORMS`; all others are drawn by
the types and names of their arguments.
"""

from __future__ import annotations

from typing import Any

import torch

from tests.pytorch.aten_draws import Call, Draw, dtype, like, number, shape, tensor
from tests.pytorch.aten_forms import FORMS


def by_schema(op: Any, r: Draw) -> Call:
    """A call of an operator whose arguments are independent of each other."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    first: torch.Tensor | None = None
    least = int(
        any(a.name == "dim" and str(a.type) in ("int", "Optional[int]") for a in op._schema.arguments)
    )  # an axis is of a tensor with dims
    for a in op._schema.arguments:
        kind = str(a.type)
        if a.has_default_value() and r.random() < 0.5 and a.name != "dtype":
            if a.kwarg_only:
                continue
            value: Any = a.default_value
        elif kind in ("Tensor", "Optional[Tensor]"):
            dims = shape(r, least) if first is None else like(r, list(first.shape))
            value = tensor(r, dims, dtype(r) if first is None or r.random() < 0.3 else first.dtype)
            if a.name in ("condition", "mask"):
                value = tensor(r, dims, torch.bool)
            first = value if first is None else first
        else:
            value = _plain(r, a.name, kind, 1 if first is None else first.dim())
        if a.kwarg_only:
            kwargs[a.name] = value
        else:
            args.append(value)
    return tuple(args), kwargs


def _plain(r: Draw, name: str, kind: str, rank: int) -> Any:
    axes = list(range(-rank, rank)) or [0, -1]
    if name == "approximate":
        return r.choice(["none", "tanh"])
    if name == "rounding_mode":
        return r.choice([None, "floor", "trunc"])
    if name in ("dtype", "layout", "device", "pin_memory", "memory_format", "correction"):
        return r.choice([None, 0, 1]) if name == "correction" else None
    if name in ("dim", "dims") and kind.startswith(("List", "Optional[List")):
        chosen = r.sample(range(rank), r.randint(0, rank))
        return [a - rank if r.random() < 0.3 else a for a in chosen]
    if name in ("dim", "dim1", "dim2", "index"):
        return r.choice(axes)
    if name in ("training", "train", "half_to_float", "non_blocking"):
        return False
    if kind == "bool":
        return r.random() < 0.5
    if kind in ("number", "Optional[number]"):
        return number(r)
    if kind in ("float", "Optional[float]"):
        return r.choice([0.5, 1.0, 2.0])
    if kind in ("int", "SymInt", "Optional[int]", "Optional[SymInt]"):
        return r.choice([0, 1, 2, 3, -1, -2])
    return None


def overload(name: str) -> Any:
    """The operator of a mapping's name."""
    library, _, rest = name.rpartition("::")
    packet, _, of = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, library or "aten"), packet), of or "default")


def drawn(name: str, r: Draw) -> tuple[Call, Any]:
    """A call that torch takes, and its answer."""
    op, form = overload(name), FORMS.get(name)
    for _ in range(200):
        args, kwargs = form(r) if form is not None else by_schema(op, r)
        try:
            with torch.no_grad():
                return (args, kwargs), op(*args, **kwargs)
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            continue
    raise AssertionError(f"no call of {name} drawn in 200 is one that torch takes; it needs a form")
