"""The ops, for building graphs by hand: `from anyshape import ops`, then `ops.softmax(x, axis=-1)`.

`ops.static` and `ops.dyn` are the variants of ops with parameters that shape their output; the plain name picks one. Ops of other
packages that are installed are here by their plain names too. `ops.match_shape(x, "f32[n, 10]")` says what a value is, in the middle
of a program; see `graph.match_shape`.
"""

from typing import Any

from anyshape.graph.match_shape import match_shape
from anyshape_ops import dyn, static
from anyshape_ops.api import *  # noqa: F403
from anyshape_ops.api import __all__ as _names

__all__ = ["dyn", "match_shape", "static", *_names]


def __getattr__(name: str) -> Any:
    """An op that anyshape does not have itself."""
    from difflib import get_close_matches
    from importlib import import_module

    from anyshape.graph.registry import packages

    if not name.startswith("_"):
        for package in packages()[1:]:
            api = import_module(f"{package.__name__}.api")
            if name in api.__all__:
                return getattr(api, name)
    near = get_close_matches(name, __all__, 3)
    raise AttributeError(f"there is no op {name}" + (f"; did you mean {', '.join(near)}?" if near else ""))
