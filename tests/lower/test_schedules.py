"""What is chosen for the forms that matter, as `describe` prints it."""

from __future__ import annotations

from anyshape import dims
from anyshape.equations.functions import maximum
from anyshape.lower import describe
from tests.lower.groups import B, Builder, K, M, N


def shown(b: Builder) -> list[str]:
    return describe(b.group()).splitlines()


def test_loops_collapse_where_all_accesses_agree() -> None:
    b = Builder("same")
    b.output(b.map(lambda p, q: p + q, b.input([B, N, M]), b.input([B, N, M])))
    assert shown(b) == ["for i4 in b*m*n along:", "  t0[i4] = (x0[i4] + x1[i4])"]


def test_a_channel_bias_keeps_its_channel_loop() -> None:
    h = dims.symbol("h")
    b = Builder("nchw")
    b.output(b.map(lambda p, q: maximum(p + q, 0.0), b.input([B, M, h, h]), b.input([M, 1, 1])))
    assert shown(b) == [
        "for i0 in b, i1 in m, i4 in h*h along:",
        "  t0[i0*h*h*m + i1*h*h + i4] = max((x0[i0*h*h*m + i1*h*h + i4] + x1[i1]), 0.0)",
    ]


def test_softmax_is_three_levels() -> None:
    b = Builder("softmax")
    b.output(b.softmax(b.input([N, M])))
    assert shown(b) == [
        "for i0 in n:",
        "  loop i1 in m along:",
        "    r0 = max x0[i0*m + i1]",
        "  loop i1 in m along:",
        "    keep exp((x0[i0*m + i1] - r0))",
        "    r1 = sum kept2",
        "  loop i1 in m along:",
        "    t2[i0*m + i1] = (kept2 / r1)",
    ]


def test_softmax_over_another_axis_is_vertical() -> None:
    b = Builder("softmax")
    b.output(b.softmax(b.input([N, M, K]), 1))
    assert shown(b)[:3] == ["for i0 in n, i2 in k along:", "  loop i1 in m:", "    r0 = max x0[i0*k*m + i1*k + i2]"]


def test_layer_norm_recomputes_cheap_differences() -> None:
    b = Builder("layer_norm")
    b.output(b.layer_norm(b.input([N, M]), b.input([M]), b.input([M])))
    assert shown(b) == [
        "for i0 in n:",
        "  loop i1 in m along:",
        "    r0 = sum x0[i0*m + i1]",
        "  loop i1 in m along:",
        "    r1 = sum ((x0[i0*m + i1] - (r0 / m)) * (x0[i0*m + i1] - (r0 / m)))",
        "  loop i1 in m along:",
        "    t2[i0*m + i1] = ((((x0[i0*m + i1] - (r0 / m)) / sqrt(((r1 / m) + 1e-05))) * x1[i1]) + x2[i1])",
    ]


def test_a_residual_is_added_once() -> None:
    b = Builder("add_norm")
    x = b.map(lambda p, q: p + q, b.input([N, M]), b.input([N, M]))
    b.output(b.layer_norm(x, b.input([M]), b.input([M])))
    assert [line.strip() for line in shown(b) if "x0" in line] == ["keep (x0[i0*m + i1] + x1[i0*m + i1])"]


def test_argmax_is_two_levels() -> None:
    b = Builder("argmax")
    b.output(b.reduce("argmax", b.input([N, M]), (1,)))
    assert [line.strip().split()[0] for line in shown(b)] == ["for", "loop", "r0", "loop", "r1", "t0[i0]"]


def test_matmul_bias_gelu_is_one_product() -> None:
    b = Builder("mlp")
    y = b.matmul(b.input([N, K]), b.input([K, M]))
    b.output(b.gelu(b.map(lambda p, q: p + q, y, b.input([M]))))
    assert shown(b) == [
        "product rows i0 in n, columns i1 in m, sum i2 in k:",
        "  r0 = x0[i0*k + i2] * x1[i1 + i2*m]",
        "  t2[i0*m + i1] = (((r0 + x2[i1]) * 0.5) * (erf(((r0 + x2[i1]) * 0.7071067811865476)) + 1.0))",
    ]


def test_attention_is_product_rows_product_by_blocks() -> None:
    b = Builder("attention")
    q, k, v = b.input([B, N, 8]), b.input([B, M, 8]), b.input([B, M, 8])
    b.output(b.matmul(b.softmax(b.matmul(q, k, tb=True)), v))
    lines = shown(b)
    assert [line.split()[0] for line in lines if not line.startswith("     ")] == [
        "each",
        "block",
        "product",
        "for",
        "product",
        "phase1",
    ]
    assert lines[-1] == "    phase1 lies over phase0"


def test_quotients_and_remainders_are_divided_where_the_size_divides_terms() -> None:
    b = Builder("grouped")
    x, y = b.input([M, 8]), b.tensor([N, 4])
    i, j = b.eqs.indices("i", y.shape)
    b.eqs.define(y[i, j], x[(4 * i + j) // 4, (8 * i + j) % 8] + x[(4 * i + j + 1) // 4, j // 3])
    b.output(y)
    (line,) = shown(b)[1:]
    assert "= (x0[i0*8 + i1] + x0[" in line
    assert line.count("//") == 2, "one more than a multiple is no plain one, and 3 does not divide"
