"""Each row of the table of com.microsoft's forms in docs/onnx.md says what onnxruntime and we do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import anyshape
from anyshape.errors import AnyshapeError
from tests.frontends.contrib import model_of
from tests.frontends.contrib_forms import NO, WRONG, Form
from tests.frontends.contrib_table import forms, table

FORMS = forms()
PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"


def ours(f: Form, proto: onnx.ModelProto) -> list[np.ndarray] | None:
    try:
        return anyshape.compile(proto).run({n: a for n, a in f.feeds.items() if a is not None})
    except AnyshapeError:
        return None


def theirs(f: Form, proto: onnx.ModelProto) -> list[np.ndarray] | None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return session.run(None, {n: a for n, a in f.feeds.items() if a is not None})
    except Exception:
        return None


def close(got: np.ndarray, want: np.ndarray) -> bool:
    """Compares results, of which one in fifty codes of 8 bits may be the next one: a sum that lies between two is rounded by its last bit,
    which orders decide."""
    if got.dtype == want.dtype and got.dtype in (np.uint8, np.int8):
        off = np.abs(got.astype(int) - want.astype(int)) if got.shape == want.shape else np.array(2)
        return bool(off.max(initial=0) <= 1 and np.count_nonzero(off) * 50 <= off.size)
    off = {np.dtype(np.float16): 2e-2, np.dtype(np.float32): 2e-3}.get(got.dtype, 1e-6)
    return got.shape == want.shape and got.dtype == want.dtype and np.allclose(got, want, off, off)


@pytest.mark.parametrize("f", FORMS, ids=lambda f: f"{f.op}: {f.text}")
def test_a_row_says_what_is(f):
    proto = model_of(f.op, f.feeds, f.outputs, "com.microsoft", **f.attributes)
    got = ours(f, proto)
    assert (got is None) == (f.ours == NO)
    if f.theirs == WRONG:  # or what was in memory before: not to be run
        return
    want = theirs(f, proto)
    assert (want is None) == (f.theirs == NO)
    if want is not None and got is not None:
        assert len(want) == len(got) and all(close(a, b) for a, b in zip(got, want, strict=True))


def test_codes_may_be_the_next_one_and_seldom():
    codes = np.arange(100, dtype=np.uint8)
    near, far, often = codes.copy(), codes.copy(), codes + np.uint8(1)
    near[:2] += 1
    far[0] += 2
    assert close(near, codes) and close(codes, codes)
    assert not close(far, codes) and not close(often, codes)
    assert not close(codes[:3] + np.uint8(np.arange(3) == 1), codes[:3]) and not close(codes[:3], codes)


def test_the_page_has_the_table():
    assert table() in PAGE.read_text()
