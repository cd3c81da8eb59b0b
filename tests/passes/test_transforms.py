"""Discrete Fourier transforms in steps, beside NumPy's in f64: of all lengths, known or not when a model is compiled."""

import math

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError

SHORT, LONG = range(1, 71), (96, 122, 128, 131, 254, 256, 400, 509, 512, 1000, 1022, 2048, 4096)
FORMS = {
    "complex": (2, {}, lambda z, n: np.fft.fft(z, n)),
    "real": (1, {}, lambda z, n: np.fft.fft(z, n)),
    "half of real": (1, {"onesided": True}, lambda z, n: np.fft.rfft(z.real, n)),
    "inverse": (2, {"inverse": True}, lambda z, n: np.fft.ifft(z, n)),
    "inverse of half": (2, {"inverse": True, "onesided": True}, lambda z, n: np.fft.irfft(z, n)),
}
EPS = {"f32": 2.0**-24, "f64": 2.0**-53}


def steps(n: int) -> int:
    """Terms of the sums that a result of n samples is made of, in the form that adds up the most."""
    factor = max(f for f in range(1, 257) if n % f == 0 and f * f <= n)
    return 2 * (factor + n // factor)


def check(got, z, n, form, dtype):
    """Sums of k terms that are products with turns err by at most (k + 2) roundings of the sum of magnitudes, per part of a number."""
    _, options, right = FORMS[form]
    want = right(z, n)
    got = got[..., 0] + (1j * got[..., 1] if got.shape[-1] > 1 else 0)
    assert got.shape == want.shape
    used = z[:, : n // 2 + 1 if form == "inverse of half" else n]
    most = np.abs(used).sum(-1, keepdims=True) * (2 if "half" in form else 1) / (n if options.get("inverse") else 1)
    assert np.all(np.abs(got - want) <= math.sqrt(2) * (min(steps(n), 2 * n) + 6) * EPS[dtype] * most)


def compiled(form, n, dtype="f32", target=None, length=None):
    parts, options, _ = FORMS[form]
    x = anyshape.input("x", f"{dtype}[b, {n}, {parts}]")
    f = anyshape.function([x], ops.dft(x, length=length, **options) if length is not None else ops.dft(x, **options))
    return anyshape.compile(f) if target is None else anyshape.compile(f, kernels="native", target=target)


def samples(form, n, dtype="f32", count=2):
    parts = FORMS[form][0]
    x = (
        np.random.default_rng(n)
        .normal(size=(count, n // 2 + 1 if form == "inverse of half" else n, parts))
        .astype(dtype.replace("f", "float"))
    )
    z = x[..., 0].astype(np.float64) + (1j * x[..., 1] if parts > 1 else 0j)
    return x, z


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("form", FORMS)
def test_lengths_that_only_the_run_tells(form, dtype):
    exe = compiled(form, "n", dtype)
    for n in (*SHORT, *LONG) if form != "inverse of half" else (n for n in (*SHORT, *LONG) if n % 2 == 0):
        x, z = samples(form, n, dtype)
        check(exe(x), z, n, form, dtype)


@pytest.mark.parametrize("n", [56, 57, 60, 131, 254, 256, 400, 1031, 4096])
@pytest.mark.parametrize("form", FORMS)
def test_known_lengths(form, n):
    x, z = samples(form, n)
    check(compiled(form, x.shape[1], length=n)(x), z, n, form, "f32")


@pytest.mark.parametrize("level", ["avx2", "sse"])
@pytest.mark.parametrize("form", ["complex", "half of real", "inverse of half"])
def test_other_processors(form, level):
    for n in (60, 400):
        x, z = samples(form, n, count=5)
        check(compiled(form, x.shape[1], target=level)(x), z, n, form, "f32")


@pytest.mark.parametrize(("size", "length"), [(300, 400), (500, 400), (400, 131)])
def test_a_signal_that_is_longer_or_shorter_than_the_transform(size, length):
    x, z = samples("complex", size)
    check(compiled("complex", size, length=length)(x), z, length, "complex", "f32")
    n = anyshape.input("n", "i64[]")
    v = anyshape.input("x", "f32[b, m, 2]")
    exe = anyshape.compile(anyshape.function([v, n], ops.dft(v, length=n)))
    check(exe(x, length), z, length, "complex", "f32")
    with pytest.raises(AnyshapeError, match="at least one sample"):
        exe(x, 0)


def test_along_another_axis():
    x = np.random.default_rng(0).normal(size=(2, 400, 3, 1)).astype(np.float32)
    v = anyshape.input("x", "f32[b, n, m, 1]")
    got = anyshape.compile(anyshape.function([v], ops.dft(v, axis=1, onesided=True)))(x)
    want = np.fft.rfft(x[..., 0].astype(np.float64), axis=1)
    np.testing.assert_allclose(got[..., 0] + 1j * got[..., 1], want, atol=1e-4)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("size", [16, 131, 400, 1024])
def test_parts_of_a_signal(size, known):
    rng = np.random.default_rng(size)
    x, w = rng.normal(size=(2, 3000, 1)).astype(np.float32), np.hanning(size).astype(np.float32)
    window = w if known else anyshape.input("w", "f32[m]")
    v = anyshape.input("x", "f32[b, n, 1]")
    operands = [v] if known else [v, window]
    exe = anyshape.compile(anyshape.function(operands, ops.stft(v, window, step=160)))
    got = exe(x) if known else exe(x, w)
    parts = np.stack([x[:, s : s + size, 0] for s in range(0, 3000 - size + 1, 160)], 1).astype(np.float64) * w
    want = np.fft.rfft(parts)
    bound = np.abs(parts).sum(-1, keepdims=True) * (min(steps(size), 2 * size) + 8) * math.sqrt(2) * EPS["f32"]
    assert np.all(np.abs(got[..., 0] + 1j * got[..., 1] - want) <= bound)
