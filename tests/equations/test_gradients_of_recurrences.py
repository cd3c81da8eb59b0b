"""Gradients of recurrences and of updates that follow each other, as specs may state them, in native code: they and their own gradients are
held against differences."""

from __future__ import annotations

import numpy as np
import pytest

import anyshape
from anyshape import ops
from tests.equations.test_gradients_of_forms import differences
from tests.generator.installing import installed

RNG = np.random.default_rng(1)
WHOLE = "y[i, j] = x[i, j] + (prod(y[i - 1, k] + x[i - 1, k] for k in m) * sum(x[i - 1, k] for k in m) if i > 0 else 0)"
MATRIX, VECTOR, SQUARE = 'x: "F[n, m]"', 'x: "F[n]"', 'a: "F[m, m]"'
PUT = 'x: "F[n]", at: "i64[m]", u: "F[m]"'
KERNELS = {
    "best_paths": (f"{MATRIX}, {SQUARE}", "y[i, j] = x[i, j] + (max(y[i - 1, k] + a[k, j] for k in m) if i > 0 else 0)"),
    "all_paths": (
        f"{MATRIX}, {SQUARE}", "y[i, j] = x[i, j] + (log(sum(exp(y[i - 1, k] + a[k, j]) for k in m)) if i > 0 else 0)"
    ),
    "of_two_dims": (
        MATRIX, "y[i, j] = x[i, j] + (y[i - 1, j] / 2 if i > 0 else 0) + (y[i - 1, j - 1] * y[i - 1, j] if i > 0 and j > 0 else 0)"
    ),
    "from_the_end": (
        f"{MATRIX}, {SQUARE}, last: \"F[m]\"",
        "y[i, j] = tanh(x[i, j] + (sum(a[j, k] * y[i + 1, k] for k in m) if i < n - 1 else last[j]))",
    ),
    "two_back": (
        f'{VECTOR}, c: "F[4]"',
        "h[-1] = c[2]\nh[-2] = c[3] * c[2]\nh[i] = x[i] + c[0] * h[i - 1] + c[1] * h[i - 2] * h[i - 1]\ny[i] = h[i]",
    ),
    "taken": (f'{MATRIX}, at: "i64[n, m]"', "y[i, j] = x[i, j] * (y[i - 1, wrap(at[i, j], m)] if i > 0 else 1)"),
    "of_each_other": (
        VECTOR, "h[i] = x[i] * (y[i - 1] if i > 0 else 1)\ny[i] = x[i] * h[i] + (h[i - 1] * h[i - 1] if i > 0 else 0)"
    ),
    "chosen": (
        f'{VECTOR}, a: "F[n]"',
        "c[i]: i64[n] = (c[i - 1] if i > 0 else 0) + (1 if x[i] > 0 else 0)\n"
        "y[i] = (y[i - 1] if i > 0 else 1) * (x[i] if c[i] % 2 == 1 else a[i])",
    ),
    "of_the_whole": (MATRIX, WHOLE),
    "highest": (MATRIX, "y[i, j] = max(x[i, k] for k in range(j + 1))"),
    "put_and_changed": (
        PUT,
        "r[i] = sum(x[j] for j in range(i + 1))\ny[i] = r[i] * r[i]\ny[wrap(at[k], n)] = u[k]\ny[wrap(at[k] + 1, n)] *= u[k]\n"
        "y[wrap(at[k] - 1, n)] += u[k] * u[k]\ny[wrap(at[k], n)] = max(y[wrap(at[k], n)], u[k] * 2)",
    ),
    "changed_twice": (
        PUT,
        "y[i] = x[i] * x[i]\ny[wrap(at[k], n)] *= u[k]\ny[wrap(at[k] + 1, n)] = min(y[wrap(at[k] + 1, n)], u[k] * 2)\n"
        "y[wrap(at[k], n)] -= u[k]",
    ),
}  # fmt: skip
NAMED = """
  named:
    summary: Parameters with the names of what an adjoint takes.
    inputs: {x: "F[n]"}
    params: {x0: {kind: int, default: 3}, seed0: {kind: int, default: 2}, rule: {kind: int, default: 1}}
    outputs: {y: "F[n]"}
    kernel: "y[i] = x[i] * x0 * seed0 * rule"
    reference: x * x0 * seed0 * rule
    examples: [{x: {value: [1]}, y: {value: [6]}}]
"""
SHAPES = {
    "x: F[n, m]": (4, 3),
    "x: F[n]": (5,),
    "a: F[m, m]": (3, 3),
    "a: F[n]": (5,),
    "last: F[m]": (3,),
    "c: F[4]": (4,),
    "u: F[m]": (3,),
}
PLACES = {"at: i64[n, m]": (4, 3), "at: i64[m]": (3,)}


def spec(name, inputs, kernel):
    lines = "\n".join(f"      {line}" for line in kernel.splitlines())
    y, x = ("F[n]", "[3]") if 'x: "F[n]"' in inputs else ("F[n, m]", "[3, 2]")
    example = f"{{x: {x}, y: {x}"
    for declared in operands(inputs)[1:]:
        example += f", {declared.split(':')[0]}: " + {
            "at: i64[m]": "{value: [0, 1]}",
            "at: i64[n, m]": "{value: [[0, 1], [1, 1], [0, 0]]}",
        }.get(declared, {"a: F[m, m]": "[2, 2]", "a: F[n]": "[3]", "c: F[4]": "[4]"}.get(declared, "[2]"))
    return (
        f'  {name}:\n    summary: Some.\n    inputs: {{{inputs}}}\n    outputs: {{y: "{y}"}}\n    kernel: |\n{lines}\n'
        f"    reference: x\n    examples: [{example}}}]\n"
    )


def operands(inputs):
    return inputs.replace('"', "").replace("], ", "];").split(";")


@pytest.fixture(scope="module", autouse=True)
def package(tmp_path_factory):
    text = "ops:\n" + "".join(spec(name, *said) for name, said in KERNELS.items()) + NAMED
    with (
        pytest.MonkeyPatch.context() as patch,
        installed("recurring_ops", text, tmp_path_factory.mktemp("r"), patch) as name,
    ):
        yield name


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_are_limits_of_differences_twice(name):
    arguments = [
        RNG.normal(size=SHAPES[o]) if o in SHAPES else RNG.integers(-3, 3, PLACES[o])
        for o in operands(KERNELS[name][0])
    ]
    floats = [k for k, a in enumerate(arguments) if a.dtype == np.float64]
    params = [
        anyshape.input(f"x{k}", f"{'f64' if k in floats else 'i64'}[{', '.join(f'n{k}_{j}' for j in range(a.ndim))}]")
        for k, a in enumerate(arguments)
    ]
    total = ops.sum(getattr(ops, name)(*params) ** 2)
    for _ in range(2):
        forward = anyshape.compile(anyshape.function(params, total))
        slopes = anyshape.gradients(total, [params[k] for k in floats])
        got = anyshape.compile(anyshape.function(params, slopes))(*arguments)
        for k, slope in zip(floats, got if isinstance(got, list | tuple) else [got], strict=True):
            expected = differences(forward, arguments, k)
            np.testing.assert_allclose(slope, expected, rtol=1e-4, atol=1e-5 * (1 + np.abs(expected).max()))
        total = sum((ops.sum(g**2) for g in slopes[1:]), ops.sum(slopes[0] ** 2))


@pytest.mark.parametrize("name", ["of_the_whole", "highest", "of_two_dims"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_gradients_of_recurrences_of_few_positions(name, shape):
    x = anyshape.input("x", "f64[n, m]")
    exe = anyshape.compile(anyshape.function([x], anyshape.gradients(getattr(ops, name)(x), [x])))
    np.testing.assert_array_equal(exe(np.full(shape, 2.0)), np.ones(shape))


def test_parameters_may_have_the_names_of_what_an_adjoint_takes():
    x = anyshape.input("x", "f64[n]")
    exe = anyshape.compile(anyshape.function([x], anyshape.gradients(ops.named(x), [x])))
    assert exe(np.ones(2)).tolist() == [6.0, 6.0]
