"""Packages of ops as operators of torch: `registered(namespace, package)` registers those of one package, once.

In: a package with its table of ops and perhaps compiled kernels, and the namespace of its operators. Out: variants and operators by name,
and why ops have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from anyshape.torch.compiled import library_of_package
from anyshape.torch.operators import register
from anyshape.torch.schema import Variants, variants_of


@dataclass(frozen=True)
class Registered:
    """The ops of some packages, by plain name."""

    variants: Mapping[str, Variants]
    operators: Mapping[str, Any]
    """operators of torch; of ops that are refused there are none"""

    def __or__(self, other: Registered) -> Registered:
        return Registered({**self.variants, **other.variants}, {**self.operators, **other.operators})

    def refused(self) -> dict[str, str]:
        """The ops that torch cannot have, and why."""
        return {name: op.refusal for name, op in self.variants.items() if op.refusal is not None}

    def missing(self, name: str) -> NoReturn:
        """Raises AttributeError for a name that is no operator: with the reason, or with near names."""
        if name in self.variants:
            raise AttributeError(f"torch cannot have the op {name}: {self.variants[name].refusal}")
        near = get_close_matches(name, self.operators, 3)
        raise AttributeError(f"there is no op {name}" + (f"; did you mean {', '.join(near)}?" if near else ""))


def registered(namespace: str, package: ModuleType) -> Registered:
    """The ops of a package, each registered as `namespace::name` by the first call."""
    if namespace not in _REGISTERED:
        variants = variants_of(package.OPS)
        kernels = library_of_package(Path(package.__file__ or "").parent)
        _REGISTERED[namespace] = Registered(
            variants, {name: register(op, namespace, kernels) for name, op in variants.items() if op.refusal is None}
        )
    return _REGISTERED[namespace]


_REGISTERED: dict[str, Registered] = {}
"""What is registered in this process, by namespace: torch refuses an operator that it has"""
