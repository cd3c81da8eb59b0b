"""The ops, for building graphs by hand: `from anyshape import ops`, then `ops.softmax(x, axis=-1)`.

`ops.static` and `ops.dyn` are the variants of ops with parameters that shape their output; the plain name picks one. Ops of other
packages that are installed are here by their plain names too. `ops.match_shape(x, "f32[n, 10]")` says what a value is, in the middle
of a program, and `ops.require(k <= 512, "…")` what its sizes are; see `graph.match_shape` and `graph.require`. The generated ops are loaded
when the first of them is used: who generates them anew, as `make watch` does, imports this before.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anyshape.graph.match_shape import match_shape as match_shape
from anyshape.graph.registry import packages
from anyshape.graph.require import require as require

if TYPE_CHECKING:
    from anyshape_ops import dyn as dyn
    from anyshape_ops import static as static
    from anyshape_ops.api import *  # noqa: F403, types of what `__getattr__` gives

_VARIANTS = ("dyn", "static")


def __getattr__(name: str) -> Any:
    """An op, of anyshape or of another package; or the module of all variants of one kind."""
    from difflib import get_close_matches

    if name == "__all__":
        return __dir__()
    if name in _VARIANTS:
        return import_module(f"anyshape_ops.{name}")
    if not name.startswith("_"):
        for package in packages():
            api = import_module(f"{package.__name__}.api")
            if name in api.__all__:
                globals()[name] = getattr(api, name)
                return globals()[name]
    near = get_close_matches(name, __dir__(), 3)
    raise AttributeError(f"there is no op {name}" + (f"; did you mean {', '.join(near)}?" if near else ""))


def __dir__() -> list[str]:
    return [*_VARIANTS, "match_shape", "require", *import_module("anyshape_ops.api").__all__]
