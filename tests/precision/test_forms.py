"""Every form of contraction in bf16 and f16: products and convolutions of all layouts, several in one kernel, in branches, loops and
recurrences.

Native code is compared with the interpreter, which rounds the same factors: within `SUMS` of the largest result, and where a factor is
itself a sum, and may round to another neighbour, within `NEIGHBOUR`. The exact model must differ by more than that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.lower.gemm.library import PAIRED, library_module
from anyshape.lower.gemm.pairs import TILED, Pairs
from anyshape.lower.llvm.jit import compile_object
from anyshape.lower.schedule.factors import words_of_precision
from anyshape.precision import CHUNKED, NARROW, Narrow
from anyshape.vm.compiling.kernels import target_called
from anyshape.vm.compiling.options import TargetName
from anyshape.vm.export.object_symbols import undefined
from anyshape_testing.laws.processors import TARGETS
from anyshape_testing.process.profile import LONG

RNG = np.random.default_rng(3)
SUMS, NEIGHBOUR = 2e-6, 1e-3
"""What results may differ by, as a share of the largest: by the order of sums in f32; by a factor that is rounded to another neighbour of
bf16, where it is computed."""
CHUNKS = {SUMS: 2e-3, NEIGHBOUR: 8e-3}
"""What results may differ by with sums in f16: those of one product, and of one that others follow, exponentials of it among them."""
LEVELS = ("host", "amx", "avx512f", "avx2", "sse")
WORDS = {p: words for p in NARROW if (words := words_of_precision(p)) is not None}


def drawn(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Form:
    """A function of inputs of some types, shapes to run it at, and what it may differ by. `products`: whether it is a matrix product."""

    types: tuple[str, ...]
    of: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    tolerance: float = SUMS
    products: bool = True

    def function(self) -> Any:
        inputs = [anyshape.input(f"x{k}", t) for k, t in enumerate(self.types)]
        results = self.of(*inputs)
        return anyshape.function(inputs, results if isinstance(results, list) else [results])


def conv(*shape: int, **attributes: Any) -> Callable[..., Any]:
    w = drawn(*shape)
    return lambda x: ops.conv(x, w, **attributes)


def attention(q: Any, k: Any, v: Any) -> Any:
    return ops.matmul(ops.softmax(ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * 0.125, axis=-1), v)


def repeated(x: Any) -> Any:
    w = drawn(9, 9) / 3
    return list(control.loop(3, lambda i, y: [ops.matmul(y, w)], [x]))


IMAGE = ("f32[n, 5, h, w]",)
W1, W2, W3 = drawn(20, 31), drawn(31, 40), drawn(65, 70)
FORMS = {
    "3x3": Form(IMAGE, conv(40, 5, 3, 3, pads=(1, 1, 1, 1)), ((2, 5, 13, 17),)),
    "7x7 with steps": Form(IMAGE, conv(64, 5, 7, 7, strides=(2, 2), pads=(3, 3, 3, 3)), ((1, 5, 33, 35),)),
    "1x1": Form(IMAGE, conv(33, 5, 1, 1), ((2, 5, 9, 10),)),
    "dilated": Form(IMAGE, conv(20, 5, 3, 3, dilations=(2, 2)), ((1, 5, 20, 19),)),
    "of groups": Form(("f32[n, 6, h, w]",), conv(40, 3, 3, 3, groups=2), ((2, 6, 13, 17),)),
    "of one dim": Form(("f32[n, 5, l]",), conv(40, 5, 3), ((2, 5, 40),)),
    "of three dims": Form(("f32[n, 3, d, h, w]",), conv(20, 3, 2, 3, 3), ((1, 3, 5, 7, 9),)),
    "variable weights": Form((*IMAGE, "f32[o, 5, 3, 3]"), ops.conv, ((2, 5, 13, 17), (21, 5, 3, 3))),
    "channels last": Form(
        IMAGE,
        lambda x: conv(48, 32, 3, 3, strides=(2, 2))(ops.relu(conv(32, 5, 3, 3, pads=(1, 1, 1, 1))(x))),
        ((1, 5, 15, 16),),
        NEIGHBOUR,
    ),
    "transposed": Form(IMAGE, lambda x: ops.conv_transpose(x, drawn(5, 12, 3, 3), strides=(2, 2)), ((1, 5, 9, 8),), SUMS, False),
    "batches": Form(("f32[b, m, k]", "f32[b, k, n]"), ops.matmul, ((3, 17, 33), (3, 33, 21))),
    "columns along k": Form(
        ("f32[b, m, k]", "f32[b, n, k]"), lambda x, y: ops.matmul(x, ops.transpose(y, (0, 2, 1))), ((3, 17, 33), (3, 21, 33))
    ),
    "one row of a constant": Form(("f32[1, k]",), lambda x: ops.matmul(x, W3), ((1, 65),)),
    "one row": Form(("f32[1, k]", "f32[k, n]"), ops.matmul, ((1, 65), (65, 33)), SUMS, False),
    "epilogue": Form(("f32[4, 65]",), lambda x: ops.relu(ops.matmul(x, W3) + 1), ((4, 65),)),
    "attention": Form(
        ("f32[b, h, m, d]", "f32[b, h, n, d]", "f32[b, h, n, e]"), attention, ((2, 3, 40, 33), (2, 3, 37, 33), (2, 3, 37, 18)), NEIGHBOUR
    ),
    "rows between": Form(
        ("f32[m, 20]",), lambda x: ops.matmul(ops.softmax(ops.matmul(x, W1), axis=-1), W2), ((50, 20),), NEIGHBOUR
    ),
    "map between": Form(("f32[m, 20]",), lambda x: ops.matmul(ops.gelu(ops.matmul(x, W1)), W2), ((50, 20),), NEIGHBOUR),
    "side by side": Form(("f32[m, 20]",), lambda x: [ops.matmul(x, W1), ops.matmul(x, W1 + 1)], ((9, 20),)),
    "loop": Form(("f32[m, 9]",), repeated, ((5, 9),), NEIGHBOUR),
    "recurrence": Form(
        ("f32[t, b, 6]",),
        lambda x: list(ops.lstm(x, drawn(1, 28, 6), drawn(1, 28, 7)))[:1],
        ((5, 3, 6),),
        NEIGHBOUR,
    ),
}  # fmt: skip


def apart(got: list[Any], want: list[Any]) -> float:
    """The largest difference as a share of the largest result."""
    return max(
        float(np.abs(np.asarray(g, np.float64) - w).max() / np.abs(w).max()) for g, w in zip(got, want, strict=True)
    )


def run(f: Any, arguments: list[Any], **options: Any) -> list[Any]:
    exe = anyshape.compile(f, **options)
    return [np.asarray(r) for r in exe.run(dict(zip(exe.input_names, arguments, strict=True)))]


@pytest.mark.parametrize("precision", NARROW)
@pytest.mark.parametrize("name", FORMS)
def test_native_code_rounds_what_the_interpreter_rounds(name: str, precision: Narrow) -> None:
    form = FORMS[name]
    f, arguments = form.function(), [drawn(*shape) for shape in form.shapes]
    tolerance = form.tolerance if precision == "bf16" or form.tolerance == SUMS else NEIGHBOUR / 4
    levels = (*LEVELS, "fp16") if precision == CHUNKED else LEVELS
    expected = run(f, arguments, precision=precision, kernels="interpret")
    assert apart(run(f, arguments, kernels="interpret"), expected) > tolerance
    for level in levels:
        in_f16 = precision == CHUNKED and target_called(level).halves
        got = run(f, arguments, precision=precision, target=level)
        assert apart(got, expected) <= (CHUNKS[form.tolerance] if in_f16 else tolerance), level
        assert not in_f16 or not form.products or apart(got, expected) > SUMS, "sums are not of f16"


@pytest.mark.parametrize("name", [name for name, form in FORMS.items() if form.products])
def test_words_are_multiplied(name: str) -> None:
    levels: dict[Narrow, TargetName] = {"bf16": "host", CHUNKED: "fp16"}
    assert levels.keys() == WORDS.keys()
    for precision, words in WORDS.items():
        exe = anyshape.compile(FORMS[name].function(), precision=precision, target=levels[precision])
        used = {name for p in exe.plan.programs for k in p.kernels for name in k.code.imports}
        assert used & {words.table, *words.packers}
    tiled = anyshape.compile(FORMS[name].function(), precision="bf16", target="amx")
    has_tiles = target_called("amx").matrix_tiles is not None
    for program in tiled.plan.programs:
        for k in program.kernels:
            assert (TILED.table in k.code.imports) == (has_tiles and Pairs().table in k.code.imports)


@pytest.mark.parametrize("precision", NARROW)
def test_one_part_gives_the_bits_of_many(precision: Narrow) -> None:
    for name in ("3x3", "attention", "batches", "epilogue"):
        form = FORMS[name]
        f, arguments = form.function(), [drawn(*shape) for shape in form.shapes]
        for level in (*LEVELS[:2], "fp16"):
            one, many = (run(f, arguments, precision=precision, threads=threads, target=level) for threads in (1, 2))
            assert all(np.array_equal(a, b) for a, b in zip(one, many, strict=True)), (name, level)


@pytest.mark.parametrize("level", LEVELS)
def test_convolutions_have_fewer_products_where_vectors_multiply_pairs(level: str) -> None:
    """Tiles multiply in less time than transforms take, and so does nothing else."""
    target, x = target_called(level), anyshape.input("x", "f32[1, 128, 56, 56]")
    f = anyshape.function([x], [ops.conv(x, drawn(128, 128, 3, 3), pads=(1, 1, 1, 1))])
    report = anyshape.compile(f, precision="bf16", target=level).report
    by_algorithm = target.multiplies_pairs and target.matrix_tiles is None
    assert ["tile_products" in n for n in report.narrowed] == [by_algorithm]
    if by_algorithm:
        arguments = [drawn(1, 128, 56, 56)]
        settings = {"sums": ("bf16", 0.0), "by 2": ("bf16", 16.0), "by 4": ("bf16", 200.0), "exact": ("exact", 0.0)}
        got = {n: run(f, arguments, precision=p, growth=g, target=level)[0] for n, (p, g) in settings.items()}
        error = {n: float(np.square(y - got["exact"]).mean() ** 0.5) for n, y in got.items()}
        assert 0 < error["by 2"] <= 2 * error["sums"] < error["by 4"]


def widened(q: Any, k: Any, between: Callable[[Any], Any] = lambda v: v) -> Any:
    return ops.matmul(q, ops.transpose(between(ops.cast(k, to="f32")), (0, 2, 1)))


STEPS = np.array([0.5, 0.25, 2, 1, 0.125] * 8, np.float32)
KEPT: dict[str, Callable[[Any, Any], Any]] = {
    "widened": widened,
    "times a scale": lambda q, k: widened(q, k, lambda v: v * np.float32(0.3)),
    "times a scale for each element": lambda q, k: widened(q, k, lambda v: v * STEPS),
    "attention": lambda q, k: ops.matmul(ops.softmax(widened(q, k) * np.float32(0.1)), ops.cast(k, to="f32")),
}


@pytest.mark.parametrize("precision", NARROW)
@pytest.mark.parametrize("dtype", ["i8", "f16", "bf16"])
@pytest.mark.parametrize("name", KEPT)
def test_what_is_narrow_in_memory_is_read_as_it_is(name: str, dtype: str, precision: Narrow) -> None:
    """The results are those of the exact model; what is added before it is widened is rounded as anything else."""
    q, k = anyshape.input("q", "f32[b, m, 40]"), anyshape.input("k", f"{dtype}[b, n, 40]")
    f = anyshape.function([q, k], [KEPT[name](q, k)])
    codes = RNG.integers(-9, 9, (2, 7, 40)).astype(k.type.dtype.numpy)
    for rows in (1, 3, 17):
        arguments = [drawn(2, rows, 40), codes]
        exact, narrow = (run(f, arguments, precision=p) for p in ("exact", precision))
        assert np.array_equal(exact[0], narrow[0])
        assert apart(narrow, run(f, arguments, precision=precision, kernels="interpret")) <= SUMS
    assert anyshape.compile(f, precision=precision).report.narrowed == []
    rounded = anyshape.function([q, k], [widened(q, k, lambda v: v + np.float32(0.3))])
    assert len(anyshape.compile(rounded, precision=precision).report.narrowed) == 1


@pytest.mark.parametrize("precision", NARROW)
def test_empty_and_special_operands(precision: Narrow) -> None:
    f = FORMS["batches"].function()
    exe = anyshape.compile(f, precision=precision)
    assert exe(drawn(3, 0, 5), drawn(3, 5, 4)).shape == (3, 0, 4)
    assert np.array_equal(exe(drawn(2, 3, 0), drawn(2, 0, 4)), np.zeros((2, 3, 4), np.float32))
    a, b = np.ones((1, 3, 3), np.float32), np.ones((1, 3, 40), np.float32)
    a[0, 0, 2], a[0, 1, 0] = np.nan, np.inf
    result = exe(a, b)
    assert np.isnan(result[0, 0]).all() and np.isposinf(result[0, 1]).all() and (result[0, 2] == 3).all()


@pytest.mark.parametrize("target", TARGETS if LONG else ["NEON"])
def test_other_processors_call_no_missing_function(target: str) -> None:
    for paired in PAIRED:
        code = compile_object(library_module(TARGETS[target], paired).text(), TARGETS[target])
        assert not [name for name in undefined(code) if name.startswith("__")]
