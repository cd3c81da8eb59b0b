"""f64 to 16-bit floats: rounded once, as NumPy does it, also where f32 in between would be a tie."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import anyshape
from anyshape import ops

TIES = [1 + 2**-11, 1 + 2**-11 + 2**-40, 1 + 2**-11 - 2**-40, 1 + 2**-8, 1 + 2**-8 - 2**-50, 1 + 3 * 2**-9 + 2**-51]
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 65519.999999999, 65520.0, 1e300, 2**-25, 2**-25 * (1 + 2**-50), 5e-324]


@pytest.mark.parametrize(("name", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_f64_is_rounded_once(name, dtype):
    x = anyshape.input("x", "f64[n]")
    narrow = anyshape.compile(anyshape.function([x], ops.cast(x, to=name)))
    random = np.random.default_rng(0).standard_normal(1000) * 10.0 ** np.random.default_rng(1).integers(-6, 5, 1000)
    values = np.array([*TIES, *(-t for t in TIES), *EDGES, *random])
    with np.errstate(all="ignore"):
        expected = values.astype(dtype) if name == "f16" else _once(values)
    np.testing.assert_array_equal(narrow(values).astype(np.float64), expected.astype(np.float64))


def _once(values):
    """bf16 by exact arithmetic: the nearer neighbour of the truncated f32, ties to even."""
    low = (values.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)
    rounded = []
    for v, t in zip(values, low):
        if not np.isfinite(v) or v == 0 or abs(v) > 3e38:
            rounded.append(ml_dtypes.bfloat16(v))
            continue
        bits = int(np.float32(t).view(np.uint32)) >> 16
        near = [np.uint16(b).view(ml_dtypes.bfloat16) for b in (bits - 1, bits, bits + 1) if 0 <= b < 65536]
        near = [b for b in near if np.isfinite(b)]
        rounded.append(min(near, key=lambda b: (abs(float(b) - v), int(b.view(np.uint16)) & 1)))
    return np.array(rounded, ml_dtypes.bfloat16)
