"""What a condition leaves out is not read, however far outside it is, also of what is computed in the same kernel."""

from __future__ import annotations

import numpy as np

import anyshape
from anyshape import ops


def test_a_transposed_tensor_is_not_read_where_its_place_is_far_before_it() -> None:
    past, new = anyshape.input("past", "f32[b, g, p, e]"), anyshape.input("new", "f32[b, s, g, e]")
    filled, size = anyshape.input("filled", "i64[b]"), anyshape.input("size", "i64[]")
    y = ops.append_at(past, ops.transpose(new, axes=[0, 2, 1, 3]), filled, size=size)
    exe = anyshape.compile(anyshape.function([past, new, filled, size], [y]))
    rng = np.random.default_rng(0)
    old, late = rng.normal(size=(2, 3, 5, 7)).astype(np.float32), rng.normal(size=(2, 2, 3, 7)).astype(np.float32)
    for at in (2**40, 3, -(2**40)):
        (got,) = exe.run({"past": old, "new": late, "filled": np.array([at, 2]), "size": np.array(6)})
        want = np.zeros((2, 3, 6, 7), np.float32)
        for n, first in enumerate((at, 2)):
            for j in range(6):
                if j < first:
                    want[n, :, j] = old[n, :, j] if j < 5 else 0
                elif j - first < 2:
                    want[n, :, j] = late[n, j - first]
        np.testing.assert_array_equal(got, want)
