"""The ops, for building graphs by hand: `from anyshape import ops`, then `ops.softmax(x, axis=-1)`.

`ops.static` and `ops.dyn` are the variants of ops with parameters that shape their output; the plain name picks one.
`ops.match_shape(x, "f32[n, 10]")` says what a value is, where the program is written; see `graph.match_shape`.
"""

from anyshape.graph.match_shape import match_shape
from anyshape_ops import dyn, static
from anyshape_ops.api import *  # noqa: F403
from anyshape_ops.api import __all__ as _names

__all__ = ["dyn", "match_shape", "static", *_names]
