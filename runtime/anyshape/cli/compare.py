"""Spells dtypes and shapes of results that are compared."""

from __future__ import annotations

from typing import Any

import numpy as np

from anyshape.strings import as_objects


def typed(a: Any) -> str:
    """Spells dtype and shape: `float32[2, 3]`."""
    a = as_objects(np.asarray(a))
    return f"{a.dtype}[{', '.join(map(str, a.shape))}]"
