"""Every example of every spec through `compile`, in each way its types can be known; all must give what the static types give.

static     numbers in every type              symbolic   every dim of every input a symbol of its own
operands   the dyn variant, operands as inputs of known length
lengths    the same with i64[?], cut and continued          ranks   data of unknown rank, cut and continued

What is walked instead of run natively, and what is saved and loaded, gives the same bits. `make test` has a sample, `make test-long` all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape.dtypes import CHAR, from_numpy, parse_dtype
from anyshape.errors import AnyshapeError
from anyshape.graph.call import call
from anyshape.graph.opdef import OpDef
from anyshape.graph.registry import all_ops
from anyshape.graph.value import Value
from anyshape.strings import as_chars, as_strings
from anyshape.types import TensorType
from anyshape.vm.executable.executable import Executable
from anyshape_gen.model.analysis import OpAnalysis
from anyshape_gen.model.spec import Example, ExampleValue
from anyshape_testing.process.profile import LONG
from tests.specs import all_specs

ROOT = Path(__file__).parents[2]
VARIANTS = ("static", "symbolic", "operands", "lengths", "ranks")
SAVED = ("symbolic", "operands")
LOADED = all_specs().ops
Array = Any


@pytest.fixture(autouse=True)
def handmade_ops() -> None:
    """Replaces the fixture of that name: here the generated ops are meant."""


def variant(op: OpAnalysis, way: str) -> OpDef | None:
    """The definition that a way of calling needs; None where the op has no such variant."""
    ops, name = all_ops(), op.spec.name
    if way in ("operands", "lengths"):
        return ops.get(f"dyn.{name}")
    return ops.get(name) or ops.get(f"static.{name}")


def sampled(variants: Sequence[str], example: int) -> Sequence[str]:
    """The variants that `make test` calls with one example of an op: all with the first example, and with each other one the next of those
    but `static`, in which tests/laws/test_spec_examples.py calls every example."""
    symbolic = [w for w in variants if w != "static"]
    return variants if example == 0 else symbolic[example % len(symbolic) :][:1]


def cases(every: bool) -> list[tuple[OpAnalysis, int, str]]:
    """Op, number of the example and way; all of them, or those of `make test`."""
    return [
        (op, k, way)
        for op in LOADED
        if variant(op, "static") is not None
        for variants in [[w for w in VARIANTS if variant(op, w) is not None]]
        for k in range(len(op.spec.examples))
        for way in (variants if every else sampled(variants, k))
    ]


CASES = [pytest.param(op, op.spec.examples[k], way, id=f"{way}-{op.spec.name}-{k}") for op, k, way in cases(every=LONG)]


def test_the_sample_has_each_example_and_each_way_of_each_op() -> None:
    def covered(sample: list[tuple[OpAnalysis, int, str]]) -> set[tuple[str, object]]:
        return {(op.spec.name, what) for op, k, way in sample for what in (k, way)}

    whole = cases(every=True)
    assert covered(cases(every=False)) == covered(whole)
    assert covered([c for c in whole if c[2] != "ranks"]) != covered(whole)
    assert covered([c for c in whole if c[1] != 1]) != covered(whole)


def dtype_of(definition: OpDef, dtype: str) -> Any:
    return TensorType(anyshape.input("x", f"{definition.dtypes.get(dtype, (dtype,))[0]}[]").type.dtype, ()).dtype.numpy


def array_of(value: ExampleValue, dtype: Any, seed: int) -> Array:
    dtype = parse_dtype(value.dtype).numpy if value.dtype else dtype
    if dtype == CHAR.numpy:
        return as_chars(np.array(value.value, str)) if value.literal else letters(value.value, seed)
    if value.literal:
        return np.array(value.value, dtype)
    shape: Any = value.value
    drawn = np.random.default_rng(seed).integers(1, 9, shape) / 4
    return np.asarray(drawn).astype(dtype)


def letters(shape: Any, seed: int) -> Array:
    return np.random.default_rng(seed).choice(np.array([*"aAbB"], CHAR.numpy), shape)


class Case:
    """One example called one way: inputs of a function, their arrays, and the results."""

    def __init__(self, op: OpAnalysis, example: Example, definition: OpDef, way: str) -> None:
        self.way, self.definition = way, definition
        self.params: list[Value] = []
        self.arrays: list[Array] = []
        values = dict(example.arguments)
        inputs: list[Any] = []
        for k, i in enumerate(definition.inputs):
            inputs.append(self.data(i.name, values.pop(i.name), i.dtype, k, i.variadic) if i.name in values else None)
        self.settings = {p.name: self.parameter(p, values[p.name]) for p in definition.params if p.name in values}
        self.inputs = inputs

    def data(self, name: str, value: ExampleValue, dtype: str, seed: int, variadic: bool) -> Any:
        kind = dtype_of(self.definition, dtype)
        shape: Any = value.value
        if variadic:
            return [
                self.input(f"{name}{k}", array_of(replace(value, value=part), kind, seed + k))
                for k, part in enumerate(shape)
            ]
        return self.input(name, array_of(value, kind, seed))

    def input(self, name: str, a: Array) -> Value:
        dims = ", ".join(f"{name}_{k}" for k in range(a.ndim)) if self.way != "static" else ", ".join(map(str, a.shape))
        dims = "..." if self.way == "ranks" else dims
        self.params.append(anyshape.input(name, f"{from_numpy(a.dtype)}[{dims}]"))
        self.arrays.append(as_strings(a) if a.dtype == CHAR.numpy else a)
        return self.params[-1]

    def parameter(self, p: Any, value: ExampleValue) -> Any:
        plain: Any = value.value
        if not p.operand:
            return plain
        a = np.array(plain, np.int64 if p.kind in ("ints", "axes", "axis", "int") else None)
        if a.dtype == np.float64:
            a = a.astype(np.float32)
        length = "?" if self.way == "lengths" and a.ndim else ", ".join(map(str, a.shape))
        self.params.append(anyshape.input(p.name, f"{from_numpy(a.dtype)}[{length}]"))
        self.arrays.append(a)
        return self.params[-1]

    def compiled(self, kernels: str) -> Executable:
        self.function = anyshape.function(self.params, call(self.definition, self.inputs, self.settings))
        return anyshape.compile(self.function, kernels=kernels)

    def run(self, exe: Executable) -> list[Array]:
        anyshape.seed(0)
        return exe.run(dict(zip(exe.input_names, self.arrays)))


@lru_cache(maxsize=1)  # the ways of an example come one after the other
def interpreted(op: OpAnalysis, example: Example) -> list[Array]:
    """What the static types give, by the interpreter of equations."""
    plain = variant(op, "static")
    assert plain is not None
    case = Case(op, example, plain, "static")
    return case.run(case.compiled("interpret"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all examples: a folder for each takes longer than what is saved there."""
    return tmp_path_factory.mktemp("saved")


def saved_and_loaded(exe: Executable, folder: Path) -> Executable:
    path = folder / "f"
    path.unlink(missing_ok=True)  # what an earlier example saved stays mapped
    exe.save(path)
    return anyshape.load(path, rebuild=False)


def assert_same(results: list[Array], expected: list[Array]) -> None:
    for a, b in zip(results, expected, strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(plain_floats(a), plain_floats(b))


def assert_close(got: Array, want: Array) -> None:
    np.testing.assert_allclose(plain_floats(got), plain_floats(want), rtol=1e-5, atol=1e-6 * largest(want))


def test_results_that_cancel_are_off_by_the_rounding_of_the_largest_and_by_no_more() -> None:
    want = np.array([160.0, 0.0, np.inf])
    assert_close(want + [0.0, 1e-4, 0.0], want)
    for error in ([0.0, 1e-3, 0.0], [0.01, 0.0, 0.0]):
        with pytest.raises(AssertionError):
            assert_close(want + error, want)
    with pytest.raises(AssertionError):
        assert_close(np.array([2e-5]), np.array([1e-5]))


def largest(a: Array) -> float:
    """The largest number, 1 at least: results that cancel, as of a transform, are off by the rounding of the largest terms."""
    return float(np.max(np.abs(plain_floats(a)), where=np.isfinite(plain_floats(a)), initial=1.0))


def test_the_largest_number_is_no_infinity() -> None:
    assert (
        largest(np.array([np.inf, -3.0, np.nan, 2.0])) == 3.0
        and largest(np.array([0.5])) == largest(np.zeros(0)) == 1.0
    )


def plain_floats(a: Array) -> Array:
    """Converts floats to a dtype that NumPy knows: of others it does not see that NaN is no number."""
    return a if a.dtype.kind in "UO" or not from_numpy(a.dtype).is_narrow_float else a.astype(np.float32)


@pytest.mark.parametrize(("op", "example", "way"), CASES)
def test_every_way_gives_what_static_types_give(op: OpAnalysis, example: Example, way: str, folder: Path) -> None:
    definition = variant(op, way)
    assert definition is not None
    if example.error is not None:
        with pytest.raises(AnyshapeError):
            case = Case(op, example, definition, way)
            case.run(case.compiled("native"))
        return
    want = interpreted(op, example)
    try:
        case = Case(op, example, definition, way)
        native = case.compiled("native")
        results = case.run(native)
    except AnyshapeError as e:
        if way in ("lengths", "ranks") and "number of outputs depends" in str(e):
            return  # a function has as many results as it has: this is refused when it is built
        raise
    assert_same(case.run(native.by(loop="python")), results)
    if way in SAVED:
        loaded = saved_and_loaded(native, folder)
        assert str(loaded.function) == str(case.function)
        assert_same(case.run(loaded), results)
    for got, w in zip(results, want, strict=True):
        assert got.dtype == w.dtype and got.shape == w.shape
        if got.dtype.kind in "UTO":
            np.testing.assert_array_equal(got, w)
        else:
            assert_close(got, w)
