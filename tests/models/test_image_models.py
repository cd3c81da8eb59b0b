"""Small image networks agree with onnxruntime at several batches, heights and widths, from one program each."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

import anyshape
from tests.models.image_models import NETS

SHAPES = ((1, 32, 32), (2, 33, 40), (3, 17, 25), (1, 64, 31))


@pytest.mark.parametrize("name", NETS)
def test_agrees_with_onnxruntime(name: str) -> None:
    model = NETS[name]()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    exe = anyshape.compile(model)
    rng = np.random.default_rng(7)
    for n, h, w in SHAPES:
        x = rng.normal(size=(n, 3, h, w)).astype(np.float32)
        (expected,) = session.run(None, {"x": x})
        assert expected.std() > 0.01
        np.testing.assert_allclose(exe(x), expected, rtol=1e-4, atol=1e-4)
    assert exe.compiled_after_first_call == 0
