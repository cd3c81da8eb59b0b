"""Gradients of what is not all of the form t[i] = e, held against differences: updates, recurrences, compaction, an order, products."""

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.errors import AnyshapeError, UnsupportedError

RNG = np.random.default_rng(0)
V, M, U = np.array([0.7, -1.1, 0.0, 1.3, -0.4]), RNG.normal(size=(2, 3)), RNG.normal(size=3)
AT = np.array([0, 1, 0])
OFTEN, FACTORS = np.array([0, 1, 0, 4, 0]), np.array([2.0, 0.0, -3.0, 0.5, 1.5])
TWO_ZEROS = np.array([0.0, 1.5, 0.0, 0.5, 2.0])
STEPS, INTO, BACK, BIAS, START = (RNG.normal(size=s) for s in ((3, 2, 3), (1, 2, 3), (1, 2, 2), (1, 4), (1, 2, 2)))
GATES_INTO, GATES_BACK, LATE = RNG.normal(size=(1, 8, 3)), RNG.normal(size=(1, 8, 2)), np.array([1, 3], np.int32)
CALLS = {
    "a product": (lambda x: ops.prod(x * x + x), [V]),
    "products of rows": (lambda x: ops.prod(x, axes=(1,)), [M]),
    "running products": (lambda x: ops.cumprod(x, 0), [V]),
    "a compaction": (lambda x: ops.exp(ops.compress(x, x > 0.1)), [V]),
    "a compaction of columns": (lambda x: ops.compress(x, np.array([True, False, True]), axis=1) ** 2, [M]),
    "elements in order": (lambda x: ops.sort(x) * np.arange(5.0), [V]),
    "the largest": (lambda x: ops.topk(x, 2)[0] ** 2, [V]),
    "elements put": (lambda x, u: ops.scatter_elements(x, AT, u, axis=0) ** 2, [V, U]),
    "elements added": (lambda x, u: ops.scatter_elements(x, AT, u, axis=0, reduction="add") ** 2, [V, U]),
    "rows put": (lambda x, u: ops.scatter_nd(x, np.array([[0], [-1], [0]]), u) ** 2, [V, U]),
    "distinct ones": (lambda x: ops.unique(x)[0] ** 2, [V]),
    "factors": (lambda x, u: ops.scatter_elements(x, OFTEN, u, axis=0, reduction="mul") ** 2, [V, FACTORS]),
    "factors of which two are 0": (lambda x, u: ops.scatter_elements(x, OFTEN, u, reduction="mul"), [V + 0.1, TWO_ZEROS]),
    "rows of factors": (lambda x, u: ops.scatter_nd(x, AT[:2, None] - 1, u, reduction="mul") ** 2, [M, M + 1]),
    "no factors": (lambda x, u: ops.scatter_elements(x, AT[:0], u, reduction="mul") ** 2, [V, U[:0]]),
    "the greater": (lambda x, u: ops.scatter_elements(x, OFTEN, u, axis=0, reduction="max") ** 2, [V, FACTORS]),
    "the less": (lambda x, u: ops.scatter_nd(x, AT[:, None], u, reduction="min") ** 2, [V, U]),
    "running sums": (lambda x: ops.cumsum(x, 0) ** 2, [V]),
    "running sums from the end of all but itself": (lambda x: ops.cumsum(x, 1, exclusive=True, reverse=True) ** 2, [M]),
    "running products from the end of all but itself": (lambda x: ops.cumprod(x, 0, exclusive=True, reverse=True), [V]),
    "the states of a network": (
        lambda x, w, r, b, h: ops.rnn(x, w, r, b, None, h)[0] ** 2, [STEPS, INTO, BACK, BIAS, START]
    ),
    "the last state of a network backwards": (
        lambda x, w, r, h: ops.rnn(x, w, r, None, LATE, h, direction="reverse")[1] ** 2, [STEPS, INTO, BACK, START]
    ),
    "gated units": (lambda x, w, r: ops.gru(x, w, r)[0] ** 2, [STEPS, GATES_INTO[:, :6], GATES_BACK[:, :6]]),
    "gated units with a reset late": (
        lambda x, w, r: ops.gru(x, w, r, linear_before_reset=True)[1] ** 2, [STEPS, GATES_INTO[:, :6], GATES_BACK[:, :6]]
    ),
    "long short-term memory": (lambda x, w, r: ops.lstm(x, w, r)[0] ** 2, [STEPS, GATES_INTO, GATES_BACK]),
    "the memory at the end": (lambda x, w, r: ops.lstm(x, w, r)[2] ** 2, [STEPS, GATES_INTO, GATES_BACK]),
    "a gradient of a network": (
        lambda x, w, r: anyshape.gradients(ops.rnn(x, w, r)[0] ** 2, [x])[0] ** 2, [STEPS[:2], INTO, BACK]
    ),
    "a gradient of factors": (
        lambda x, u: anyshape.gradients(ops.scatter_elements(x, OFTEN, u, reduction="mul") ** 2, [u])[0] ** 2,
        [V + 0.1, FACTORS],
    ),
    "a gradient of running products": (lambda x: anyshape.gradients(ops.cumprod(x, 0) ** 2, [x])[0] ** 2, [V]),
    "interpolation": (lambda x, at: ops.grid_sample(x, at) ** 2, [RNG.normal(size=(1, 1, 3, 3)), RNG.uniform(-0.9, 0.9, (1, 2, 2, 2))]),
    "windows of groups": (
        lambda x, w: ops.conv(x, w, groups=2, strides=[2], pads=[1, 0]) ** 2, [RNG.normal(size=(2, 4, 5)), RNG.normal(size=(6, 2, 3))]
    ),
    "windows with gaps": (
        lambda x, w, b: ops.conv(x, w, b, dilations=[2, 1], pads=[1, 0, 2, 1]) ** 2,
        [RNG.normal(size=(1, 2, 4, 3)), RNG.normal(size=(3, 2, 2, 2)), U],
    ),
    "windows laid into a tensor": (
        lambda x, w, b: ops.conv_transpose(x, w, b, groups=2, strides=[2], pads=[1, 0]) ** 2,
        [RNG.normal(size=(2, 4, 3)), RNG.normal(size=(4, 1, 3)), U[:2]],
    ),
    "windows that overlap": (
        lambda x: ops.overlap_add(x, size=[6], strides=[2], begin=[1]) ** 2, [RNG.normal(size=(1, 2, 3, 3))]
    ),
    "a gradient of windows": (
        lambda x, w: anyshape.gradients(ops.conv(x, w, strides=[2], pads=[1, 1]) ** 2, [x])[0] ** 2,
        [RNG.normal(size=(1, 2, 4)), RNG.normal(size=(2, 2, 3))],
    ),
    "a product over no axis": (lambda x: ops.prod(x, axes=(), empty_is_all=False) ** 2, [V]),
    "places among found ones": (
        lambda x: ops.sparse_fill_empty_rows(np.array([[0], [0], [2]]), x, np.array(0.5), shape=[4])[1] ** 2, [U]
    ),
    "rows under an assert": (lambda x: ops.reverse_sequence(x, np.array([2, 0, 1])) ** 2 * np.arange(3.0), [M]),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_a_gradient(name):
    call, arguments = CALLS[name]
    params = [
        anyshape.input(f"x{k}", f"f64[{', '.join(f'n{k}_{j}' for j in range(a.ndim))}]")
        for k, a in enumerate(arguments)
    ]
    y = call(*params)
    forward = anyshape.compile(anyshape.function(params, y))
    got = anyshape.compile(anyshape.function(params, anyshape.gradients(y, params)))(*arguments)
    for k, g in enumerate(got if isinstance(got, list | tuple) else [got]):
        np.testing.assert_allclose(g, differences(forward, arguments, k), rtol=1e-5, atol=1e-6)


def test_a_recurrence_of_one_step_that_the_types_tell():
    """The only position of the recurrence is read after it, at 1, and not by the step itself, although all extents are 1."""
    arguments = [STEPS[:1, :1, :1], INTO[:, :1, :1], BACK[:, :1, :1], START[:, :1, :1]]
    params = [anyshape.input(f"x{k}", f"f64{list(a.shape)}") for k, a in enumerate(arguments)]
    y = ops.rnn(*params[:3], None, np.array([1], np.int32), params[3])[0]  # type: ignore[call-arg]
    forward = anyshape.compile(anyshape.function(params, y))
    got = anyshape.compile(anyshape.function(params, anyshape.gradients(y, params)))(*arguments)
    for k, g in enumerate(got):
        np.testing.assert_allclose(g, differences(forward, arguments, k), rtol=1e-5, atol=1e-6)


def differences(f, arguments, k, step=1e-6):
    slope = np.zeros_like(arguments[k])
    for i in np.ndindex(slope.shape):
        ends = []
        for sign in (1, -1):
            moved = [a.copy() for a in arguments]
            moved[k][i] += sign * step
            ends.append(f(*moved).sum())
        slope[i] = (ends[0] - ends[1]) / (2 * step)
    return slope


@pytest.mark.parametrize(("reduction", "extreme"), [("max", [0.0, 2.0, 3.0]), ("min", [0.0, 2.0, -3.0])])
def test_equal_extremes_share_a_gradient(reduction, extreme):
    """What was there and two updates are equal at place 1, as equal maxima of a reduction are."""
    x, u = anyshape.input("x", "f64[n]"), anyshape.input("u", "f64[m]")
    y = ops.scatter_elements(x, np.array([1, 1, 2]), u, axis=0, reduction=reduction)
    exe = anyshape.compile(anyshape.function([x, u], anyshape.gradients(y * np.array([1.0, 3.0, 5.0]), [x, u])))
    of_x, of_u = exe(np.array([0.0, 2.0, 0.0]), np.array([2.0, 2.0, extreme[2]]))
    np.testing.assert_allclose(of_x, [1.0, 1.0, 0.0])
    np.testing.assert_allclose(of_u, [1.0, 1.0, 5.0])


REFUSED = {
    "a procedure": (lambda x: ops.unique_slices(x, 0)[0], r"unique_slices: a procedure has no adjoint \(specs/sorting\.yaml:\d+\)"),
    "a loop": (
        lambda x: ops.linear_attention(x, x, x, groups=1)[0],
        r"loop, which \w*\.?linear_attention calls \(specs/decoding\.yaml:\d+\): a loop has no adjoint",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_the_reason_and_the_line_where_there_is_none(name):
    call, words = REFUSED[name]
    x = anyshape.input("x", "f64[b, n, m]" if name == "a loop" else "f64[n, m]")
    with pytest.raises(UnsupportedError, match=f"no gradient of {words}"):
        anyshape.gradients(call(x), [x])


def test_a_branch_of_a_composition_that_is_decided_is_passed_through():
    """The length of the parts decides, whatever the signal's."""
    signal = anyshape.input("x", "f64[1, n, 1]")
    power = ops.sum(ops.stft(signal, step=4, length=8) ** 2)
    step = anyshape.compile(anyshape.function([signal], anyshape.gradients(power, [signal])))
    x = np.arange(12.0).reshape(1, 12, 1)
    parts = np.stack([np.eye(12)[s : s + 8] for s in (0, 4)])
    waves = np.fft.rfft(parts, axis=1)
    want = 2 * np.real(np.einsum("fkn,fkm,m->n", np.conj(waves), waves, x[0, :, 0]))
    np.testing.assert_allclose(np.reshape(step(x), -1), want, rtol=1e-9)


@pytest.mark.parametrize("n", [12, 512, 1031])
def test_a_transform_of_a_length_that_only_the_run_tells_has_the_gradient_of_its_form(n):
    """The power of the spectrum is n times that of the signal, so its gradient is 2 n x, in every form of the composition."""
    signal = anyshape.input("x", "f64[1, n, 1]")
    step = anyshape.compile(anyshape.function([signal], anyshape.gradients(ops.sum(ops.dft(signal) ** 2), [signal])))
    x = np.random.default_rng(n).normal(size=(1, n, 1))
    np.testing.assert_allclose(step(x), 2 * n * x, rtol=1e-9)


def test_the_adjoint_of_a_branch_is_a_branch():
    """The sides of the branch both read what is outside, one of them not all of it; sizes and numbers of float results differ, and one
    fails where taken."""
    x, w = anyshape.input("x", "f64[n]"), anyshape.input("w", "f64[n]")
    y, _, z = control.if_(
        ops.sum(x) > 0,
        lambda: [ops.sin(x) * w, ops.argmax(x, axis=0), ops.sum(w)],
        lambda: [ops.exp(x[:1]), ops.argmin(x, axis=0), ops.sum(x * x)],
    )
    first = anyshape.gradients(ops.sum(y * y) * z, [x, w])
    exe = anyshape.compile(anyshape.function([x, w], [*first, *anyshape.gradients(ops.sum(first[1]), [x])]))
    a, b, s, c = np.array([1.0, 2, 3]), np.array([2.0, 5, 7]), np.sin([1.0, 2, 3]), np.cos([1.0, 2, 3])
    got = exe(a, b)
    np.testing.assert_allclose(got[0], 2 * s * c * b**2 * b.sum())
    np.testing.assert_allclose(got[1], 2 * s**2 * b * b.sum() + np.sum((s * b) ** 2))
    np.testing.assert_allclose(got[2], 4 * s * c * b * b.sum() + 3 * 2 * s * c * b**2)
    of_x, of_w, mixed = exe(-a, b)
    np.testing.assert_allclose(of_x, [2 * np.exp(-2) * 14, 0, 0] + np.exp(-2) * 2 * -a)
    np.testing.assert_array_equal([of_w, mixed], np.zeros((2, 3)))


def test_a_side_of_a_branch_without_an_adjoint_is_named_and_one_that_fails_fails():
    x, m = anyshape.input("x", "f64[n]"), anyshape.input("m", "f64[n, n]")
    (y,) = control.if_(ops.sum(m) > 0, lambda: [ops.unique_slices(m, 0)[0]], lambda: [m])
    with pytest.raises(UnsupportedError, match=r"no gradient of unique_slices: a procedure"):
        anyshape.gradients(y, [m])
    (y,) = control.if_(ops.sum(x) > 0, lambda: [x * x], lambda: [ops.reshape(x[:1], [2])])
    exe = anyshape.compile(anyshape.function([x], anyshape.gradients(y, [x])))
    np.testing.assert_array_equal(exe(np.array([1.0, 2])), [2, 4])
    with pytest.raises(AnyshapeError, match="cannot view"):
        exe(np.array([-1.0, -2]))


def test_what_is_demanded_of_elements_is_demanded_of_a_gradient():
    x, lens = anyshape.input("x", "f64[m, n]"), anyshape.input("lens", "i64[n]")
    (g,) = anyshape.gradients(ops.reverse_sequence(x, lens), [x])
    exe = anyshape.compile(anyshape.function([x, lens], g))
    np.testing.assert_array_equal(exe(M, np.array([1, 2, 0])), np.ones((2, 3)))
    with pytest.raises(AnyshapeError, match="a length is not within"):
        exe(M, np.array([1, 3, 0]))


def test_operands_that_a_pass_finds_equal_have_gradients_of_their_own():
    x = anyshape.input("x", "f64[n]")
    a, b = ops.exp(x), ops.exp(x)
    exe = anyshape.compile(anyshape.function([x], anyshape.gradients(ops.div(a, b), [a, b])))
    of_a, of_b = exe(U)
    np.testing.assert_allclose(of_a, np.exp(-U))
    np.testing.assert_allclose(of_b, -np.exp(-U))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_a_place_that_is_computed_from_floats_is_a_step(mode):
    """What is sampled counts by its share; of the boxes only the shares depend, and those of the nearest element do not."""
    images, boxes = RNG.normal(size=(2, 1, 4, 5)), RNG.uniform(0.1, 0.8, (3, 4))
    params = [anyshape.input("x", "f32[2, 1, 4, 5]"), anyshape.input("b", "f32[k, 4]")]
    y = ops.crop_and_resize(*params, np.array([0, 1, 1]), size=[3, 2], mode=mode)
    forward = anyshape.compile(anyshape.function(params, ops.sum(y**2)))
    arguments = [images.astype(np.float32), boxes.astype(np.float32)]
    of_images, of_boxes = anyshape.compile(anyshape.function(params, anyshape.gradients(y**2, params)))(*arguments)
    np.testing.assert_allclose(of_images, differences(forward, arguments, 0, 1e-2), rtol=0.01, atol=0.02)
    if mode == "linear":
        np.testing.assert_allclose(of_boxes, differences(forward, arguments, 1, 1e-3), rtol=0.02, atol=0.05)
    else:
        assert not of_boxes.any()


def test_a_refusal_of_data_in_a_gradient_names_operands_as_the_op_does():
    x, at, more = anyshape.input("x", "f32[n]"), anyshape.input("at", "i64[k]"), anyshape.input("more", "f32[n]")
    taken = ops.sum(ops.gather(ops.concat([x, more], axis=0), at, axis=0) ** 2)
    exe = anyshape.compile(anyshape.function([x, more, at], anyshape.gradients(taken, [x])))
    with pytest.raises(AnyshapeError, match=r"index\[1\] = 9"):
        exe(np.ones(2, np.float32), np.ones(2, np.float32), np.array([0, 9]))
    twice = anyshape.compile(anyshape.function([x], anyshape.gradients(ops.sum(ops.mul(x, x)), [x])))
    np.testing.assert_array_equal(twice(np.full(1, 3, np.float32)), [6])


def test_a_gradient_of_any_rank_is_that_of_the_rank_that_comes():
    x = anyshape.input("x", "f32[...]")
    slopes = anyshape.compile(anyshape.function([x], anyshape.gradients(x * x, [x])))
    for shape in ((), (3,), (2, 0), (2, 3, 1)):
        data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        np.testing.assert_array_equal(slopes(data), 2 * data)


COUNTED = {
    "selected rows": (lambda x, m: ops.compress(x, m) ** 2, lambda x, m: 2 * x * m.reshape(-1, *[1] * (x.ndim - 1))),
    "two selections by one mask": (
        lambda x, m: ops.compress(x, m) * ops.exp(ops.compress(x, m)),
        lambda x, m: (1 + x) * np.exp(x) * m.reshape(-1, *[1] * (x.ndim - 1)),
    ),
    "selected rows of a selection": (
        lambda x, m: ops.compress(ops.compress(x, m), np.array([True])) * 3.0,
        lambda x, m: 3.0 * (np.cumsum(m) * m == 1).reshape(-1, *[1] * (x.ndim - 1)) * np.ones_like(x),
    ),
    "distinct elements": (lambda x, m: ops.unique(ops.reshape(x, [-1]))[0] ** 2, lambda x, m: 2 * x),
}


@pytest.mark.parametrize("name", COUNTED)
def test_sizes_of_any_rank_that_data_decide(name):
    """The rule, which counts, had not run when the gradient was made."""
    build, slope = COUNTED[name]
    x, mask = anyshape.input("x", "f32[...]"), anyshape.input("m", "bool[?]")
    slopes = anyshape.compile(anyshape.function([x, mask], anyshape.gradients(build(x, mask), [x])))
    for shape in ((3,), (4, 2), (3, 1, 2)):
        data, kept = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 4, np.arange(shape[0]) % 2 == 0
        np.testing.assert_allclose(slopes(data, kept), slope(data, kept), rtol=1e-6)


def test_a_gradient_of_no_positions_is_empty():
    """Types say that there are none: intermediate tensors of the gradient have axes of size 0 ahead of others."""
    shapes = {"q": (1, 0, 2, 4), "k": (1, 0, 1, 4), "v": (1, 0, 1, 3)}
    params = [anyshape.input(name, f"f32{list(shape)}") for name, shape in shapes.items()]
    y = ops.grouped_query_attention(*params, np.zeros(1, np.int32), total=0)[0]
    slopes = anyshape.compile(anyshape.function(params, anyshape.gradients(y, params)))
    got = slopes(*(np.zeros(shape, np.float32) for shape in shapes.values()))
    assert [g.shape for g in got] == list(shapes.values())
