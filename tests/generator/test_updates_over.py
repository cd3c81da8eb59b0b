"""Updates with extents and a condition, `y[e] += (v for j in n if c)`: from the spec to native code, of every dtype, and their gradients.

The ops are those of `data/updates.yaml`; the fuzzer of specs draws from it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape.dtypes import parse_dtype
from anyshape.errors import AnyshapeError, SpecError
from anyshape_gen.analysis import analyse
from anyshape_gen.bounds.check_op import How, verdicts
from anyshape_gen.model.printer import equation_text
from anyshape_gen.mutants import mutants
from anyshape_gen.resolve.moving import Moved, moved_dtypes
from anyshape_testing.process.profile import load_profile
from anyshape_testing.quick import checks, run
from tests.equations.test_gradients_of_forms import differences
from tests.generator import test_kernels
from tests.generator.installing import installed

PATH = Path(__file__).parent / "data" / "updates.yaml"
TEXT = PATH.read_text()
OPS = {a.spec.name: a for a in analyse({"specs/updates.yaml": TEXT}).ops}
DTYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u32", "u16", "u8")
HOW = ("set", "add", "sub", "mul", "max", "min")
ULP = {"f16": 1e-3, "bf16": 1e-2}
RNG = np.random.default_rng(5)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with installed("updates_over", TEXT, tmp_path, monkeypatch):
        from anyshape import ops

        yield ops


EXAMPLES = [(name, e) for name, a in OPS.items() for e in a.spec.examples if e.error is None]


@pytest.mark.parametrize(("op", "example"), EXAMPLES, ids=[f"{name}-{k}" for k, (name, _) in enumerate(EXAMPLES)])
def test_the_resolved_kernel_element_by_element(op: str, example: Any) -> None:
    if op != "each":  # a list of tensors has literals of its own
        test_kernels.test_kernel_agrees_with_reference(OPS[op], example)


@pytest.mark.parametrize("op", OPS)
def test_examples_and_laws(op: str, api: Any) -> None:
    load_profile(2)
    wrong = [line for holds, line in map(run, checks("updates_over", op)) if not holds]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype(dtype: str, api: Any) -> None:
    t = parse_dtype(dtype).numpy
    x, at, v = np.arange(1, 6).astype(t), np.array([4, -1, 0, 5, 4, 2**40]), np.array([2, 3, 4, 5, 6, 7]).astype(t)
    kept = (at >= 0) & (at < 5)
    inputs = [
        anyshape.input("x", f"{dtype}[n]"),
        anyshape.input("at", "i64[m]"),
        anyshape.input("v", f"{dtype}[m]"),
    ]
    for how, f in zip(HOW, (None, np.add, np.subtract, np.multiply, np.maximum, np.minimum), strict=True):
        exe = anyshape.compile(anyshape.function(inputs, api.put_if(*inputs, how=how)))
        expected = x.astype(np.float64)
        if f is None:
            expected[at[kept]] = v[kept].astype(np.float64)
        else:
            f.at(expected, at[kept], v[kept].astype(np.float64))
        got = exe(x, at, v)
        assert got.dtype == t
        exact = expected.astype(np.int64).astype(t) if t.kind in "iu" else expected.astype(t)
        np.testing.assert_allclose(got.astype(np.float64), exact.astype(np.float64), rtol=ULP.get(dtype, 1e-7))
        for n, m in ((0, 6), (5, 0), (0, 0)):
            np.testing.assert_array_equal(exe(x[:n], at[:m], v[:m]), x[:n])


V, X = np.array([0.5, -1.25, 0.0, 2.0, 1.5, -0.75]), np.array([1.5, -0.5, 0.25])
AT = np.array([1, 3, 1, -1, 2, 1])


@pytest.mark.parametrize("how", HOW)
def test_a_gradient_flows_where_the_condition_holds(how: str, api: Any) -> None:
    x, v = anyshape.input("x", "f64[n]"), anyshape.input("v", "f64[m]")
    y = api.put_if(x, AT, v, how=how) ** 2 * np.array([1.0, 3.0, 0.5])
    forward = anyshape.compile(anyshape.function([x, v], y))
    slopes = anyshape.compile(anyshape.function([x, v], anyshape.gradients(y, [x, v])))(X, V)
    for k, g in enumerate(slopes):
        np.testing.assert_allclose(g, differences(forward, [X, V], k), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(slopes[1][(AT < 0) | (AT >= 3)], 0)
    assert np.count_nonzero(slopes[1]) > 0


def test_a_gradient_of_what_is_weighted_and_filtered(api: Any) -> None:
    offsets, column = np.array([0, 2, 2, 5]), np.array([1, 0, 1, 2, 1])
    v, x = anyshape.input("v", "f64[k]"), anyshape.input("x", "f64[m]")
    y = api.csr_columns(offsets, column, v, x, n=3) ** 2
    forward = anyshape.compile(anyshape.function([v, x], y))
    slopes = anyshape.compile(anyshape.function([v, x], anyshape.gradients(y, [v, x])))
    for arrays in ([V[:5], X], [V[:5] * 0, X]):
        for k, g in enumerate(slopes(*arrays)):
            np.testing.assert_allclose(g, differences(forward, arrays, k), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("at", [[1, 5, 1, 0, -1, 0], [-1, -1, 9], []])
def test_a_gradient_of_factors_that_are_picked_under_the_condition(at: list[int], api: Any) -> None:
    x = anyshape.input("x", "f64[n]")
    y = api.factors(x, np.array(at, np.int64), np.array([0, 2, 2])) ** 2
    forward = anyshape.compile(anyshape.function([x], y))
    slopes = anyshape.compile(anyshape.function([x], anyshape.gradients(y, [x])))
    for array in (X, np.array([0.0, 2.0, 0.0])):
        np.testing.assert_allclose(slopes(array), differences(forward, [array], 0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("how", ["set", "add", "mul", "max"])
def test_a_gradient_where_the_condition_reads_what_was_there(how: str, api: Any) -> None:
    """Afterwards it does not hold of the second element, or of the third."""
    x, v = anyshape.input("x", "f64[n]"), anyshape.input("v", "f64[m]")
    y = api.own(x, np.array([1, 1, 2]), v, how=how) ** 2
    forward = anyshape.compile(anyshape.function([x, v], y))
    slopes = anyshape.compile(anyshape.function([x, v], anyshape.gradients(y, [x, v])))
    for arrays in (
        [np.array([1.0, 2.0, -1.0]), np.array([-3.0, 5.0, 2.0])],
        [np.array([1.0, 2.0, 0.5]), np.array([3.0, -5.0, -2.0])],
    ):
        for k, g in enumerate(slopes(*arrays)):
            np.testing.assert_allclose(g, differences(forward, arrays, k), rtol=1e-5, atol=1e-6)


def test_a_filter_of_the_values_stops_a_gradient(api: Any) -> None:
    w = anyshape.input("w", "f64[m]")
    y = api.tally(np.array([0, 1, 0, 9]), w, n=2)
    (got,) = [anyshape.compile(anyshape.function([w], anyshape.gradients(y, [w])))(np.array([1.0, -1.0, 2.0, 3.0]))]
    np.testing.assert_array_equal(np.asarray(got).ravel(), [1, 0, 1, 0])


def spec(kernel: str, shape: str = "") -> str:
    lines = "\n      ".join(kernel.split("\n"))
    rule = f"    shape: |\n      {shape}\n" if shape else ""
    inputs = '{x: "f32[n]", at: "i64[m]"}'
    return (
        f"ops:\n  an_op:\n    summary: An op.\n    inputs: {inputs}\n    outputs: {{y: 'f32[n]'}}\n"
        f"{rule}    kernel: |\n      {lines}\n    reference: x\n    examples: [{{x: [3], at: [2], y: [3]}}]\n"
    )


@pytest.mark.parametrize(
    ("kernel", "proved"),
    [
        ("y[j + 1] += (x[j] for j in n if j < n - 1)", True),
        ("y[j + 1] += (x[j] for j in n if j + 1 < n if x[j] > 0)", True),
        ("y[j + 1] += (x[j] for j in n if j < n)", False),
        ("y[j + 1] += (x[j] for j in n if x[j] > 0)", False),
        ("y[j] += (x[j - 1] for j in range(1, n))", True),
        ("y[j] += (x[j - 1] for j in range(0, n))", False),
        ("y[i] += (x[j] for j in range(i, n) for k in range(j - i))", True),
        ("y[i] += (x[j + k] for j in range(i, n) for k in range(n - j))", True),
        ("y[i] += (x[j + k] for j in range(i, n) for k in range(n - j + 1))", False),
        ("y[i] = max(y[i], (x[j + 1] for j in range(i) if j > 3))", True),
        ("y[i] = max(y[i], (x[j + 1] for j in range(i + 1) if j > 3))", False),
    ],
)
def test_a_condition_and_a_range_are_known_to_proofs(kernel: str, proved: bool) -> None:
    a = analyse({"specs/m.yaml": spec(kernel)}).op("an_op")
    assert ({v.how for v in verdicts(a)} <= {How.STRUCTURAL, How.LINEAR, How.CASES}) == proved


def test_an_index_that_is_wrong_although_guarded_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    with (
        pytest.raises(AssertionError),
        installed("refused", spec("y[j + 1] += (x[j] for j in n if j < n)"), tmp_path, monkeypatch),
    ):
        pass
    assert "specs/ops.yaml:7:7: this store of 'y' is out of bounds for {x: [" in capsys.readouterr().err


def test_what_a_condition_reads_is_not_only_moved() -> None:
    assert moved_dtypes(OPS["put_if"]) == Moved(("T",), {"how": ("set",)})
    assert moved_dtypes(OPS["rows_if"]) == Moved()
    assert moved_dtypes(OPS["own"]) == Moved()
    text = spec("y[at[j]] = (x[j] for j in m if CONDITION)").replace("f32", "T")
    for condition, moved in (("at[j] > 0", ("T",)), ("x[j] > 0", ())):
        assert moved_dtypes(analyse({"specs/m.yaml": text.replace("CONDITION", condition)}).op("an_op")).dtypes == moved


def test_a_filter_is_a_mutant() -> None:
    kinds = [m.kind for m in mutants(OPS["tally"].spec)]
    assert kinds.count("filter dropped") == 1
    assert kinds.count("update") == 2


@pytest.mark.parametrize(
    "kernel",
    [
        "y[at[j]] += (x[k] for k in n for j in m if at[j] < n)",
        "y[i] = x[i]\ny[at[j]] = min(y[at[j]], (x[0] for j in range(1, m) if n > 0))",
        "t[i] = (x[i] for i in n if x[i] > 0)\ny[i] = t[i] * 2",
        "t[i]: f32[m] = (x[at[i]] for i in m if 0 <= at[i] and at[i] < n)\ny[at[j]] += (t[j] for j in m if at[j] < n)",
    ],
)
def test_texts_that_are_accepted(kernel: str) -> None:
    equations = analyse({"specs/m.yaml": spec(kernel)}).op("an_op").spec.kernel
    assert equations is not None
    assert [equation_text(q) for q in equations.equations] == kernel.split("\n")


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("y[at[j]] += (x[j] for j in many)", "specs/m.yaml:7:34: unknown name 'many'"),
        ("y[at[j]] += (x[0] for j in m if x[0])", "specs/m.yaml:7:39: a condition is a truth, but `x[0]` is f32"),
        ("y[at[j]] += (x[0] for j in m if at[j] > x[0])", "specs/m.yaml:7:39: i64 and f32 meet in `at[j] > x[0]`"),
        ("y[at[j]] += 1", None),
        (
            "y[at[0] * j] += 1",
            "specs/m.yaml:7:7: the extent of 'j' is not known: nothing is indexed by it alone; write it",
        ),
        ("y[at[0] * j] += (1 for j in m)", None),
    ],
)
def test_places_of_errors(kernel: str, message: str | None) -> None:
    if message is None:
        analyse({"specs/m.yaml": spec(kernel)})
        return
    with pytest.raises(SpecError) as error:
        analyse({"specs/m.yaml": spec(kernel)})
    assert message in str(error.value)


def test_an_index_that_is_kept_is_checked(api: Any) -> None:
    """The condition of `csr_columns` is on the entries alone, so that its assert has to be."""
    with pytest.raises(AnyshapeError, match="a column"):
        anyshape.compile(
            anyshape.function(
                [v := anyshape.input("v", "f64[k]")],
                api.csr_columns(np.array([0, 1]), np.array([3]), v, np.array([1.0]), n=3),
            )
        )(np.array([1.0]))
