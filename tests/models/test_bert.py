"""bert_mini whole: one compile, every listed shape, against onnxruntime; and how much work a 12-layer BERT's type inference is."""

import numpy as np
import onnxruntime
import pytest

from anyshape.errors import ShapeError
from benchmarks.inference_speed import imported
from benchmarks.models import load
from tests.counting import calls

PER_NODE = 1200
"""Calls of functions for a node's type, about twice what they are now."""


@pytest.fixture(scope="module")
def bert_mini(tmp_path_factory):
    import anyshape

    path = load("bert_mini").build(tmp_path_factory.mktemp("models") / "bert_mini.onnx")
    return anyshape.compile(path), onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def test_bert_mini_agrees_with_onnxruntime_at_every_shape_from_one_compile(bert_mini):
    ours, theirs = bert_mini
    model = load("bert_mini")
    assert len(model.SHAPES) == 20
    for batch, length in model.SHAPES:
        arguments = model.inputs(batch, length, seed=batch * 1000 + length)
        for a, b in zip(ours.run(arguments), theirs.run(None, arguments), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-4, err_msg=f"{batch}x{length}")
    assert ours.compiled_after_first_call == 0


def test_an_empty_batch_is_refused_where_numpy_would_refuse_it(bert_mini):
    """[batch, length, -1, 64] of no elements has no answer: numpy.reshape says so too, and so does onnxruntime."""
    ours, _ = bert_mini
    with pytest.raises(ShapeError, match=r"Reshape.*0 is not a multiple of 0 with one answer"):
        ours.run(load("bert_mini").inputs(0, 5))


def test_types_of_a_bert_take_work_as_its_nodes_do():
    """Three times the layers, and a few hundred calls a node."""
    from anyshape.passes import infer_types

    work = {}
    for name in ("bert_mini", "bert_base"):
        f = imported(name)
        infer_types(f)
        work[name] = calls(lambda f=f: infer_types(f)) / len(f.nodes)
    assert work["bert_base"] < 1.3 * work["bert_mini"]
    assert work["bert_base"] < PER_NODE
