"""The law of what moves, on every op of specs/ of which the generator finds that it only moves elements."""

import numpy as np

from anyshape_testing.calls.call import Call, variants
from anyshape_testing.calls.packages import PROPERTIES
from anyshape_testing.laws.moving import *
from anyshape_testing.laws.moving import EXACT, exact_in_floats

PACKAGE = "anyshape_ops"


def test_what_moves_and_what_computes():
    moving = {n for n in PROPERTIES if variants(n)[0].moves}
    assert {
        "reshape",
        "transpose",
        "concat",
        "gather",
        "where",
        "pad",
        "shape_of",
        "split",
        "trilu",
        "center_crop_pad",
    } <= moving
    assert not {"equal", "unique", "top_k", "cast", "scatter", "zeros", "unique_slices"} & moving


def test_what_moves_in_some_modes():
    scatter = variants("scatter_nd")[0]
    assert scatter.moves_where == {"reduction": ("none",)}
    assert scatter.moved({}) == scatter.moved({"reduction": "none"}) == ("T",) and not scatter.moved(
        {"reduction": "add"}
    )
    assert variants("grid_sample")[0].moves_where == {"mode": ("nearest",)}
    resize = variants("resize")[0]
    assert resize.moved({"mode": "nearest"}) == ("T",)
    for computes in ({"mode": "linear"}, {"mode": "nearest", "coordinates": "tf_crop_and_resize"}):
        assert not resize.moved(computes)
    assert not any(variants(n)[0].moves_where and not variants(n)[0].moves for n in PROPERTIES)


def test_moved_numbers_are_exact_in_floats_and_others_stay():
    gather = PROPERTIES["gather"]
    x, at = np.array([2**63 - 1, -(2**63), 7]), np.array([2, 0])
    exact = exact_in_floats(Call(gather, {"x": x, "indices": at}, {}))
    assert exact.inputs["x"].tolist() == [EXACT, -EXACT, 7] and exact.inputs["x"].dtype == np.int64
    assert exact.inputs["indices"] is at
