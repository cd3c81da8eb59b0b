"""Law 5 tells a wrong rewrite from a right one: each of these has one thing wrong, and is generated as a spec's own would be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from anyshape_gen.model.source import Findings
from anyshape_gen.parse.rewrites import parse_rewrite
from anyshape_gen.parse.text import Text
from anyshape_testing.laws.rewriting import fires, rerun
from anyshape_testing.mutation.making import Workshop, in_place, load
from anyshape_testing.process.profile import load_profile, usual
from anyshape_testing.rewrites.comparison import are_close

WRONG = {
    "a number of the condition": (
        "pow",
        "pow(a, b) as y >> mul(a, a) if b[()] == 3 and shape(y) == shape(a)",
        "in place of",
    ),
    "unsigned": ("abs", "abs(neg(x)) >> abs(x)", "in place of"),
    "value": ("abs", "abs(neg(x)) >> neg(x)", "in place of"),
    "order of composition": ("transpose", "transpose(transpose(x, p), q) >> transpose(x, q[p])", "in place of"),
    "shape": ("squeeze", "squeeze(x, _) >> x", "type .* in place of"),
    "dtype": ("cast", "cast(x, to=_) >> x", "type .* in place of"),
    "digits lost on the way": ("cast", "cast(cast(x, to=_), to=t) >> cast(x, to=t)", "in place of"),
    "a condition that is too weak": (
        "reshape",
        "reshape(x, _, allowzero=_) as y >> x if len(shape(y)) == len(shape(x))",
        "type .* in place of",
    ),
    "a condition left out": (
        "reshape",
        "reshape(reshape(x, _, allowzero=_), s, allowzero=z) >> reshape(x, s, allowzero=z)",
        "in place of|copies a dim|cannot view|not a multiple of",
    ),
    "a term of sums left out": (
        "conv_transpose",
        "conv_transpose(x, w, bias, strides=s, dilations=d, pads=p, output_padding=o, output_shape=z, auto_pad=a, groups=g)"
        " >> conv_transpose(x, w, strides=s, dilations=d, pads=p, output_padding=o, output_shape=z, auto_pad=a, groups=g)",
        "in place of",
    ),
    "a factor of a row moved out of its sum": (
        "matmul",
        "matmul(a, mul(b, r)) as y >> mul(matmul(a, b), r) if finite(r) and rank(r) <= min(rank(b), rank(y))",
        "in place of",
    ),
    "a factor left out, which sums that overflow do not hide": (
        "matmul",
        "matmul(a, mul(b, r)) as y >> matmul(a, b) if finite(r) and prod(shape(r)) == 1 and rank(r) <= min(rank(b), rank(y))",
        "in place of",
    ),
    "zero points left out": (
        "matmul",
        "matmul(dequantize_linear(a, sa, _, axis=_), dequantize_linear(b, sb, _, axis=_))"
        " >> matmul_integer_to_float(a, sa, b=b, sb=sb)"
        " if finite(sa) and finite(sb) and prod(shape(sa)) == 1 and prod(shape(sb)) == 1",
        "in place of",
    ),
    "no condition that ever holds": ("relu", "relu(relu(x)) >> x if len(shape(x)) < 0", "never fired"),
}


@pytest.fixture(autouse=True)
def no_shrinking() -> Iterator[None]:
    load_profile(100, shrink=False)
    yield
    load_profile(usual())


@pytest.mark.parametrize("name", WRONG)
def test_it_is_rejected(name: str, workshop: Workshop) -> None:
    op, text, why = WRONG[name]
    findings = Findings()
    rewrite = parse_rewrite(Text.plain(text), findings)
    assert rewrite is not None and not findings.items
    spec = replace(workshop.specs[op], rewrites=(rewrite,))
    code = workshop.generate(spec)
    assert code is not None
    defs = load(spec, code)
    with in_place(defs), pytest.raises(Exception, match=why):
        here, times = fires(op, 0)
        assert here, f"never fired in {times} instances"


def test_a_cube_that_rounds_to_infinity_is_the_largest_float() -> None:
    """The cube root of the largest float, whose square times itself is rounded twice; half of the largest float is another number."""
    most = float(np.finfo(np.float32).max)
    calls = [
        {"shapes": {"a": (), "b": ()}, "params": {}, "dtypes": {"T": "f32", "U": "f32"}, "seed": 99, "style": "extreme"}
    ]
    rerun("anyshape_ops", "pow", 1, calls)
    assert are_close(np.float32([np.inf]), np.float32([most]), np.zeros(1))
    assert not are_close(np.float32([np.inf]), np.float32([most / 2]), np.zeros(1))
    assert not are_close(np.float32([most]), np.float32([np.inf]), np.zeros(1))


def test_sums_whose_terms_cancel_may_be_added_up_in_another_order() -> None:
    """One element of 216 is 0.03, what terms of 20 leave: in the other order it is off by 270 ulps of it."""
    params = {
        "strides": (1, 1), "dilations": (1, 1), "pads": (0,) * 4, "output_padding": (0, 0), "output_shape": None,
        "auto_pad": "NOTSET", "groups": 2,
    }  # fmt: skip
    shapes = {"x": (3, 6, 3, 3), "w": (6, 3, 2, 1), "bias": (6,)}
    recipe = {"shapes": shapes, "params": params, "dtypes": {"F": "f32"}, "seed": 0, "style": "plain"}
    rerun("anyshape_ops", "conv_transpose", 0, [recipe])
