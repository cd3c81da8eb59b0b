"""`dynamic_shapes` of torch: what people say of dims, for torch and for us.

Torch refuses a module in whose trace it decided that a size is not 1, since it then would not hold for all that a `Dim` promises. Ops
decide by themselves what they need of a size, so torch is told that each dim may be anything (`Dim.AUTO`), within its bounds; that dims
of one name are equal is known to us, and checked in each call.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anyshape.dims import Size, symbol
from anyshape.errors import ArgumentError, UnsupportedError


@dataclass(frozen=True)
class OpenDims:
    """The `dynamic_shapes` of a module with an example."""

    model: Any
    example: Sequence[Any]
    kwargs: Mapping[str, Any]
    said: Any
    """the dims that the caller states, in any form that `torch.export.export` takes"""

    def for_torch(self) -> Any:
        """Returns the stated dims with `Dim.AUTO` in place of each."""
        return _auto(self.said)

    def sizes(self, program: Any) -> dict[str, Size]:
        """The dims that people named, by torch's symbols. Raises UnsupportedError for one of which torch made a number."""
        import torch

        sizes: dict[str, Size] = {}
        placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
        specs = program.graph_signature.input_specs
        user = [n for n, spec in zip(placeholders, specs, strict=True) if spec.kind.name == "USER_INPUT"]
        for node, said in zip(user, self._of_leaves()):
            value = node.meta.get("val")
            if not isinstance(value, torch.Tensor) or said is None:
                continue
            for axis, dim in said.items() if isinstance(said, Mapping) else enumerate(said):
                named, size = _named(dim), value.shape[axis]
                if named is not None and (isinstance(size, int) or not size.node.expr.free_symbols):
                    raise UnsupportedError(
                        f"input {node.name}: axis {axis} is open, as {dim.__name__}, and torch traces the module for the size {size} alone"
                    )
                if named is not None and size.node.expr.is_Symbol:
                    sizes.setdefault(str(size.node.expr), named)
        return sizes

    def _of_leaves(self) -> Iterator[Any]:
        """What is said of each tensor of the arguments, in the order in which torch flattens them."""
        if self.said is None:
            return
        try:
            arguments = inspect.signature(self.model.forward).bind(*self.example, **self.kwargs).arguments
        except TypeError as e:
            raise ArgumentError(f"compile: the example does not fit the module's forward: {e}") from None
        by_name = self.said if isinstance(self.said, Mapping) else dict(zip(arguments, self.said))
        for name, argument in arguments.items():
            yield from _leaves(argument, by_name.get(name))


def _leaves(argument: Any, said: Any) -> Iterator[Any]:
    if isinstance(argument, Mapping):
        for key, item in argument.items():
            yield from _leaves(item, None if said is None else said.get(key))
    elif isinstance(argument, (tuple, list)):
        for k, item in enumerate(argument):
            yield from _leaves(item, None if said is None else said[k])
    else:
        yield said


def _auto(said: Any) -> Any:
    """A structure with `Dim.AUTO` for each dim, within its bounds."""
    from torch.export import Dim

    if isinstance(said, Mapping):
        return {key: _auto(item) for key, item in said.items()}
    if isinstance(said, (tuple, list)):
        return type(said)(_auto(item) for item in said)
    if not _is_dim(said) or hasattr(said, "fn"):
        return Dim.AUTO if _is_dim(said) else said
    bounds = {"min": said.min} if said.min else {}
    return Dim.AUTO(**bounds, **({"max": int(said.max)} if isinstance(said.max, int) else {}))


def _is_dim(said: Any) -> bool:
    return hasattr(said, "__name__") and (hasattr(said, "min") or hasattr(said, "root"))


def _named(said: Any) -> Size | None:
    """The dim that a `Dim` of torch names, or that is computed of one; None for anything else."""
    if not _is_dim(said):
        return None
    if hasattr(said, "fn"):
        root = _named(said.root)
        return None if root is None else said.fn(root)
    name: str = said.__name__
    return symbol(name, int(said.min), int(said.max) if isinstance(said.max, int) else None)
