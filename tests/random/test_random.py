"""Random numbers: the algorithm's known answers, the same bits whatever computes them, their distributions, and what has no seed.

Every draw here has a seed, so no test can fail by chance.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from scipy import stats

import anyshape
from anyshape import Function, Value, constant, ops
from anyshape.control import loop
from anyshape.dtypes import from_numpy, parse_dtype
from anyshape.equations import philox

ZERO, ONE = constant(np.float32(0)), constant(np.float32(1))


def drawn(make, *arrays, **options):
    """What an op gives, for a seed and inputs of open shapes."""
    names = [anyshape.input(f"x{k}", f"{from_numpy(a.dtype)}[{', '.join(f'n{k}{j}' for j in range(a.ndim))}]")
             for k, a in enumerate(arrays)]  # fmt: skip
    f = Function(names, [make(*names)])
    return anyshape.compile(f, **options)(*arrays)


def test_known_answers():
    """The answers are those that the authors of Philox publish with their code."""
    full = 0xFFFFFFFF
    cases = {
        ((0, 0), (0, 0, 0, 0)): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        ((full, full), (full,) * 4): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ((0xA4093822, 0x299F31D0), (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)): (
            0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1,
        ),
    }  # fmt: skip
    for (key, counter), want in cases.items():
        assert tuple(int(w) for w in philox.words(key, counter)) == want


WAYS = [{}, {"target": "avx2"}, {"target": "sse"}, {"threads": 3}, {"kernels": "interpret"}]


@pytest.mark.parametrize(
    ("dtype", "options"), [*((d, o) for d in ("f32", "f64") for o in WAYS), ("f16", {}), ("bf16", {})]
)
def test_bits_depend_on_nothing_but_seed_and_position(dtype, options):
    seed, to = np.int64(-(2**62) + 7), np.array([3, 41, 17])
    low, high = (constant(np.array(v, parse_dtype(dtype).numpy)) for v in (0, 1))
    got = drawn(lambda s, t: ops.random_uniform(s, low, high, to=t), seed, to, **options)
    flat = drawn(lambda s, t: ops.random_uniform(s, low, high, to=t), seed, np.array([3 * 41 * 17]))
    wide = parse_dtype("f64") if dtype == "f64" else parse_dtype("f32")
    want = philox.numbers(np.array(seed), np.arange(3 * 41 * 17), wide).astype(parse_dtype(dtype).numpy)
    assert got.tobytes() == flat.tobytes() == want.tobytes()


def test_distributions():
    seed, to = np.int64(2011), np.array([200, 500])
    u = drawn(lambda s, t: ops.random_uniform(s, ZERO, ONE, to=t), seed, to)
    assert u.min() >= 0 and u.max() < 1
    assert stats.kstest(u.ravel(), "uniform").pvalue > 0.01
    z = drawn(lambda s, t: ops.random_normal(s, ZERO, ONE, to=t), seed, to)
    assert stats.kstest(z.ravel(), "norm").pvalue > 0.01
    assert abs(np.corrcoef(z[:, :-1].ravel(), z[:, 1:].ravel())[0, 1]) < 0.01
    again = drawn(lambda s, t: ops.random_normal(s, ZERO, ONE, to=t), seed + 1, to)
    assert abs(np.corrcoef(z.ravel(), again.ravel())[0, 1]) < 0.01
    b = drawn(lambda s, p: ops.bernoulli(s, p, to="bool"), seed, np.full((300, 400), 0.3, np.float32))
    assert stats.binomtest(int(b.sum()), b.size, 0.3).pvalue > 0.01
    shares = np.array([0.5, 0.25, 0.0, 0.2, 0.05])
    with np.errstate(divide="ignore"):
        x = np.log(shares).astype(np.float32)[None] + np.float32(3)
    picked = drawn(lambda s, p: ops.multinomial(s, p, draws=50000), seed, x)
    seen = np.bincount(picked[0], minlength=5)
    assert seen[2] == 0 and stats.chisquare(seen[shares > 0], 50000 * shares[shares > 0]).pvalue > 0.01


def test_dropout():
    x, ratio = np.ones((300, 401), np.float32), np.float32(0.25)

    def dropped(s: Value, v: Value, r: Value) -> Value:
        return ops.dropout(v, ops.dropout_mask(s, v, r), r)

    y = drawn(dropped, np.int64(3), x, ratio)
    kept = y != 0
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.75)}
    assert stats.binomtest(int(kept.sum()), kept.size, 0.75).pvalue > 0.01


def test_every_run_draws_anew_unless_it_says_where_to_begin():
    normal = anyshape.compile(Function([], [ops.random_normal(ops.fresh_seed(), ZERO, ONE, to=[5]) for _ in range(2)]))
    first, second = normal(), normal()
    assert len({v.tobytes() for v in (*first, *second)}) == 4
    runs = []
    for n in (1, 2, 1):
        anyshape.seed(n)
        runs.append([normal(), normal()])
    assert np.array_equal(runs[0], runs[2]) and not np.any(np.equal(runs[0], runs[1]))


def test_every_iteration_of_a_loop_draws_anew():
    iterations = loop(3, lambda k, total: [ops.add(total, ops.fresh_seed())], [constant(np.int64(0))])
    f = anyshape.compile(Function([], [iterations[0] if isinstance(iterations, (list, tuple)) else iterations]))
    anyshape.seed(5)
    total = int(f())
    anyshape.seed(5)
    one = anyshape.compile(Function([], [ops.fresh_seed()]))
    each = [int(one()) for _ in range(3)]
    assert len(set(each)) == 3 and (total - sum(each)) % 2**64 == 0


def test_onnx_draws_the_same_with_a_seed_and_not_without():
    def model(**seed):
        node = helper.make_node("RandomNormal", [], ["y"], shape=[2, 3], mean=1.0, scale=2.0, **seed)
        y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
        graph = helper.make_graph([node], "g", [], [y])
        return anyshape.compile(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]))

    seeded, other, free = model(seed=4.0), model(seed=5.0), model()
    assert np.array_equal(seeded(), seeded()) and not np.array_equal(seeded(), other())
    assert not np.array_equal(free(), free())


@pytest.mark.parametrize("operator", ["RandomUniformLike", "RandomNormalLike", "Bernoulli"])
@pytest.mark.parametrize("number", [None, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16])
def test_what_is_drawn_like_an_input_has_its_dtype_or_another(operator, number):
    said = {} if number is None else {"dtype": number}
    node, x = helper.make_node(operator, ["x"], ["y"], **said), np.full((4, 3), 0.5, np.float32)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])]
    y = helper.make_tensor_value_info("y", number or TensorProto.FLOAT, ["n", 3])
    f = anyshape.compile(
        helper.make_model(helper.make_graph([node], "g", inputs, [y]), opset_imports=[helper.make_opsetid("", 17)])
    )
    assert f(x).shape == (4, 3) and f(x).dtype == helper.tensor_dtype_to_np_dtype(number or TensorProto.FLOAT)
