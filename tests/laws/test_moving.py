"""The law of what moves, on every op of specs/ of which the generator finds that it only moves elements."""

from anyshape_testing.calls import variants
from anyshape_testing.moving import *  # noqa: F403
from anyshape_testing.running import PROPERTIES

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
    assert not any(variants(n)[0].moves_where and not variants(n)[0].moves for n in PROPERTIES)
