"""Values, memory and messages of exported functions, called in this process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import anyshape
from anyshape import ops
from anyshape.dims import evaluate, free_symbols
from anyshape.errors import AnyshapeError, ArgumentError, OverflowedError, ShapeError, UnsupportedError
from anyshape.graph.function import Function
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import TARGETS, Export, Request, export, export_ranks, export_target, own_targets
from anyshape.vm.export.budget import bytes_at, demand_budget
from anyshape.vm.export.entry_knowledge import analyse
from anyshape.vm.export.exporting import compiled_programs
from anyshape.vm.export.formula import arena_size
from anyshape.vm.export.interface import checked_name, name_from, unique
from anyshape.vm.export.object_symbols import undefined
from anyshape.vm.export.register_values import entry_values
from anyshape.vm.export.status_code import Code
from anyshape_testing.exports.loaded import PARALLEL_FOR, SATURATED, Exported, Pool, StatusError, tensor_of
from anyshape_testing.laws.exported_ops import RUNS_HERE

Array = NDArray[Any]
pytestmark = pytest.mark.skipif(not RUNS_HERE, reason="there is no target for processors like this one")
OPTIONS = make_options({"dims": {}})


def exported(f: Function, name: str = "model", **options: Any) -> Export:
    return export(f, name, export_target(None), OPTIONS, **options)


def rows() -> Function:
    """Two kernels and a value between them: `n` rows of `m`."""
    x, w = anyshape.input("x", "f32[n, m]"), anyshape.input("w", "f32[m, k]")
    return anyshape.function([x, w], ops.softmax(ops.matmul(ops.exp(x), w)))


@pytest.fixture(scope="module")
def both() -> tuple[Exported, anyshape.Executable]:
    f = rows()
    return Exported(exported(f)), anyshape.compile(f, threads=1)


def arrays(n: int, m: int, k: int) -> list[Array]:
    rng = np.random.default_rng(n + 10 * m)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((n, m), (m, k))]


@pytest.mark.parametrize("sizes", [(1, 1, 1), (2, 3, 5), (17, 40, 33), (0, 3, 4), (3, 0, 4), (0, 0, 1), (64, 1, 100)])
def test_values_at_many_sizes(sizes: tuple[int, int, int], both: tuple[Exported, anyshape.Executable]) -> None:
    c, python = both
    inputs = arrays(*sizes)
    (result,) = c(*inputs)
    np.testing.assert_allclose(result, python(*inputs), rtol=1e-5, atol=1e-6)
    assert c.output_shape(0, sizes) == result.shape == (sizes[0], sizes[2])


def test_the_formula_is_what_the_code_computes(both: tuple[Exported, anyshape.Executable]) -> None:
    c, _ = both
    main, general = (analyse(p) for p in compiled_programs(rows(), export_target(None), OPTIONS))
    names = [d.c_name for d in c.interface.dims]
    assert names == ["n", "m", "k"]
    for known, all_sizes in ((main, [(1, 1, 1), (9, 100, 33), (1000, 3, 7)]), (general, [(0, 3, 4), (2, 0, 9)])):
        formula = arena_size(known, entry_values(known, c.interface))
        for sizes in all_sizes:
            values = {s: sizes[names.index(s.name)] for s in free_symbols(formula)}
            assert evaluate(formula, values) == c.arena_bytes(sizes)


def test_the_arena_is_exactly_large_enough(both: tuple[Exported, anyshape.Executable]) -> None:
    c, _ = both
    inputs = arrays(9, 70, 33)
    needed = c.arena_bytes((9, 70, 33))
    assert needed % 64 == 0 and needed > 0
    room = [9 * 33 * 4]
    c.run(inputs, (9, 70, 33), needed, room)
    for short in (needed - 1, 64, 0):
        with pytest.raises(
            StatusError, match=f"^ARENA: {c.interface.name}: the arena has {short} bytes, and {needed} are needed"
        ) as raised:
            c.run(inputs, (9, 70, 33), short, room)
        assert raised.value.code is Code.ARENA and raised.value.status.needed == needed


def test_an_output_that_is_too_small_is_named(both: tuple[Exported, anyshape.Executable]) -> None:
    c, _ = both
    inputs, sizes = arrays(2, 3, 5), (2, 3, 5)
    with pytest.raises(
        StatusError, match=r"output output0: f32\[2, 5\] takes 40 bytes, and its memory has 39"
    ) as raised:
        c.run(inputs, sizes, c.arena_bytes(sizes), [39])
    assert (raised.value.code, raised.value.status.output, raised.value.status.needed) == (Code.OUTPUT, 0, 40)


@pytest.mark.parametrize(("sizes", "kind", "said"), [
    ((-1, 3, 4), ShapeError, "input x: dim 0 (n) must be at least 0, got -1"),
    ((2, 1, -(2**63)), ShapeError, "input w: dim 1 (k) must be at least 0, got -9223372036854775808"),
    ((2**62, 4, 1), OverflowedError, "input x: its size in bytes does not fit a signed 64-bit integer"),
    ((2**62, 0, 1), OverflowedError, "input x: its size in bytes does not fit a signed 64-bit integer"),
])  # fmt: skip
def test_sizes_that_no_tensor_has(
    sizes: Sequence[int], kind: type[AnyshapeError], said: str, both: tuple[Exported, anyshape.Executable]
) -> None:
    c, _ = both
    for refuse in (lambda: c.check(sizes), lambda: c.output_shape(0, sizes), lambda: c.run([], sizes, 0, [0])):
        with pytest.raises(kind) as raised:
            refuse()
        assert str(raised.value) == said
    assert c.arena_bytes(sizes) == SATURATED


def test_bytes_saturate(both: tuple[Exported, anyshape.Executable]) -> None:
    """Each input has fewer than 2^63 bytes, and the values between them more."""
    c, _ = both
    sizes = (2**40, 1, 2**40)
    assert c.arena_bytes(sizes) == SATURATED
    with pytest.raises(OverflowedError, match="does not fit a signed 64-bit integer"):
        c.check(sizes)


@pytest.mark.parametrize(("sizes", "fits"), [
    ((2**30, 2**30), True), ((2**31 - 1, 2**30), True), ((2**31, 2**30), False), ((2**40, 2**40), False), ((2**61 - 1, 1), True),
    ((0, 2**60), True),
])  # fmt: skip
def test_an_output_of_more_bytes_than_63_bits_count_is_refused_before_it_runs(sizes: Sequence[int], fits: bool) -> None:
    """The inputs are small, and nothing lies in the arena."""
    x, w = anyshape.input("x", "f32[n, 1]"), anyshape.input("w", "f32[1, k]")
    c = Exported(exported(anyshape.function([x, w], {"y": ops.mul(x, w)})))
    assert c.arena_bytes(sizes) == 0
    for ask in (lambda: c.check(sizes), lambda: c.output_shape(0, sizes)):
        if fits:
            ask()
        else:
            with pytest.raises(OverflowedError, match="a size of the result y does not fit a signed 64-bit integer"):
                ask()


@pytest.mark.parametrize(("n", "fits"), [(2**31, True), (2**32, False)])
def test_a_size_beyond_64_bits_that_a_kernel_takes_is_refused_before_it_runs(n: int, fits: bool) -> None:
    """The number of elements of a mean, of which none lies in memory."""
    x, w = anyshape.input("x", "f32[n, 1]"), anyshape.input("w", "f32[1, n]")
    c = Exported(exported(anyshape.function([x, w], ops.mean(ops.mul(x, w), axes=[0, 1]))))
    assert c.arena_bytes([n]) < SATURATED
    if fits:
        c.check([n])
    else:
        with pytest.raises(OverflowedError, match="a size of what it computes does not fit"):
            c.check([n])


def test_threads_of_the_caller_give_the_same_bits(both: tuple[Exported, anyshape.Executable]) -> None:
    c, _ = both
    inputs, sizes, room = arrays(300, 64, 200), (300, 64, 200), [300 * 200 * 4]
    (alone,) = c.run(inputs, sizes, c.arena_bytes(sizes), room)
    for threads in (1, 3, 64, 1000, 0, -1):
        pool, needed = Pool(threads), c.arena_bytes_shared(threads, sizes)
        (shared,) = c.run(inputs, sizes, needed, room, pool)
        assert np.array_equal(shared, alone)
        assert not pool.parts if threads < 2 else max(pool.parts) <= min(threads, 64) and pool.parts
        if threads == 3:
            assert needed >= c.arena_bytes(sizes)
            with pytest.raises(StatusError, match="are needed"):
                c.run(inputs, sizes, needed - 64, room, pool)


@pytest.mark.parametrize(("threads", "refused"), [(3, True), (64, True), (1, False), (0, False)])
def test_a_pool_of_several_threads_needs_a_function(
    threads: int, refused: bool, both: tuple[Exported, anyshape.Executable]
) -> None:
    c, python = both
    inputs, sizes, pool = arrays(300, 64, 200), (300, 64, 200), Pool(threads)
    pool.words.parallel_for = PARALLEL_FOR()
    run = partial(c.run, inputs, sizes, c.arena_bytes_shared(threads, sizes), [300 * 200 * 4], pool)
    if refused:
        with pytest.raises(StatusError, match="NULL: parallel_for of the pool is NULL"):
            run()
    else:
        np.testing.assert_allclose(run()[0], python(*inputs), rtol=1e-5, atol=1e-6)


def test_of_parts_that_refuse_the_first_one_says_why() -> None:
    x, i = anyshape.input("x", "f32[n, 64]"), anyshape.input("i", "i64[m]")
    f = anyshape.function([x, i], ops.gather(x, i))
    c, python = Exported(exported(f)), anyshape.compile(f, threads=1)
    wrong = np.zeros(20000, np.int64)
    wrong[[777, 19_999]] = [50, 60]
    inputs, sizes, pool = [np.zeros((4, 64), np.float32), wrong], (4, 20000), Pool(8)
    said = []
    for run in (lambda: python(*inputs), lambda: c.run(inputs, sizes, 64, [20000 * 256], pool)):
        with pytest.raises(ShapeError) as raised:
            run()
        said.append(str(raised.value))
    assert said[0] == said[1] and "index[777] = 50" in said[0] and pool.parts


def test_tensors_of_dlpack(both: tuple[Exported, anyshape.Executable]) -> None:
    """Tensors of NumPy have DLPack's layout: strides are read, and shapes tell the sizes."""
    c, python = both
    inputs, result = arrays(3, 5, 7), np.empty((3, 7), np.float32)
    needed = c.arena_bytes((3, 5, 7))
    tensors, to = [tensor_of(a) for a in inputs], tensor_of(result)
    assert c.run_tensors(tensors, [to], needed) == [(3, 7)]
    np.testing.assert_allclose(result, python(*inputs), rtol=1e-5, atol=1e-6)
    longer = np.empty((9, 7), np.float32)
    to = tensor_of(longer)
    assert c.run_tensors(tensors, [to], needed) == [(3, 7)] and np.array_equal(longer[:3], result)
    columns = np.asfortranarray(inputs[0])
    wrong: list[tuple[list[Array], Array, str]] = [
        (
            [inputs[0].astype(np.float64), inputs[1]],
            result,
            "input x must be f32, got DLPack's type code 2 of 64 bits and 1 lanes",
        ),
        ([inputs[0][0], inputs[1]], result, "input x must be of rank 2, got rank 1"),
        ([columns, inputs[1]], result, "input x must be dense: the stride of axis 1 must be 1, got 3"),
        ([inputs[0], inputs[1][:, ::2]], result, "input w must be dense: the stride of axis 1 must be 1, got 2"),
        (inputs, result[:2], r"output output0: f32\[3, 7\] takes 84 bytes, and its memory has 56"),
        (inputs, result.astype(np.int32), "output output0 must be f32, got DLPack's type code 0 of 32 bits"),
    ]
    for arguments, destination, said in wrong:
        with pytest.raises(StatusError, match=said):
            c.run_tensors([tensor_of(a) for a in arguments], [tensor_of(destination)], needed)
    with pytest.raises(ShapeError) as raised:
        c.run_tensors([tensor_of(a) for a in (inputs[0], inputs[1][:4])], [tensor_of(result)], needed)
    with pytest.raises(ShapeError) as said_in_python:
        python(inputs[0], inputs[1][:4])
    assert str(raised.value) == str(said_in_python.value)
    to = tensor_of(result)
    to.device_type = 2
    with pytest.raises(StatusError, match="output output0 must be in memory of the CPU, got DLPack's device type 2"):
        c.run_tensors(tensors, [to], needed)
    one = tensor_of(np.lib.stride_tricks.as_strided(inputs[0], (1, 5), (400, 4)))  # the stride of one row is never used
    assert c.run_tensors([one, tensors[1]], [tensor_of(result)], needed) == [(1, 7)]


def test_one_function_for_all_ranks_of_an_op() -> None:
    """The tensor's rank chooses; the plan writes shapes and bytes."""
    from anyshape.cli.show import variant
    from anyshape.vm.export.op_function import of_op, of_rank

    types = {"a": "f32[...]", "b": "f32[...]"}
    functions = {r: of_op(variant("add"), of_rank(types, r), {}) for r in range(4)}
    c = Exported(export_ranks(functions, "sum", Request(export_target(None), OPTIONS), 0))
    for shapes in (((), ()), ((3,), (1,)), ((2, 1), (2, 5)), ((2, 3, 4), (1, 3, 1)), ((0, 2), (0, 2))):
        x, y = (np.random.default_rng(k).standard_normal(s).astype(np.float32) for k, s in enumerate(shapes))
        expected = x + y
        result = np.empty((7,) * expected.ndim, np.float32)
        inputs, to = [tensor_of(x), tensor_of(y)], tensor_of(result)
        needed = c.plan_tensors(inputs, [to])
        assert tuple(to.shape[: to.ndim]) == expected.shape
        result = np.empty(expected.shape, np.float32)
        assert c.run_tensors(inputs, [tensor_of(result)], needed) == [expected.shape]
        assert np.array_equal(result, expected)
    high = np.zeros((1, 1, 1, 1), np.float32)
    with pytest.raises(StatusError, match="sum: there is code for ranks 0, 1, 2, 3, got an input of rank 4"):
        c.plan_tensors([tensor_of(high), tensor_of(high)], [tensor_of(high)])
    with pytest.raises(ShapeError, match="add"):
        c.plan_tensors([tensor_of(np.zeros(n, np.float32)) for n in (3, 2)], [tensor_of(np.zeros(3, np.float32))])


def test_elements_that_dlpack_packs_have_no_tensors() -> None:
    x = anyshape.input("x", "i4[n]")
    e = exported(anyshape.function([x], ops.cast(x, "f32")))
    assert "There is no function for tensors of DLPack" in e.header and not any("tensors" in n for n in e.functions)
    import ml_dtypes

    (result,) = Exported(e)(np.array([-8, 7, 0], ml_dtypes.int4))
    assert result.tolist() == [-8, 7, 0]


def test_null_pointers_get_a_status() -> None:
    x = anyshape.input("x", "f32[n]")
    c = Exported(exported(anyshape.function([x], ops.exp(x))))
    import ctypes

    from anyshape_testing.exports.loaded import Output, Status, demand

    run = c._functions["run"]
    some = np.zeros(64, np.float32)
    status, address = Status(), ctypes.c_void_p(some.ctypes.data)
    outputs = (Output * 1)(Output(address, 16, None))
    nothing = (ctypes.c_void_p * 1)(None)
    inputs = (ctypes.c_void_p * 1)(address)
    four, none = ctypes.c_int64(4), ctypes.c_void_p(None)
    empty = (Output * 1)(Output(None, 16, None))
    for words, said in (
        ((none, outputs), "inputs is NULL"), ((inputs, none), "outputs is NULL"), ((nothing, outputs), "input x is NULL"),
        ((inputs, empty), "the memory of output output0 is NULL"),
    ):  # fmt: skip
        with pytest.raises(StatusError, match=said):
            demand(run(none, ctypes.c_uint64(0), *words, four, ctypes.byref(status)), status)
    assert (
        run(none, ctypes.c_uint64(0), nothing, empty, ctypes.c_int64(0), none) == 0
    )  # nothing is read, and nobody asks for a status
    skew = ctypes.c_void_p(some.ctypes.data + (4 if some.ctypes.data % 64 == 0 else 0))
    with pytest.raises(StatusError, match="the arena must begin at a multiple of 64 bytes"):
        demand(run(skew, ctypes.c_uint64(0), inputs, outputs, four, ctypes.byref(status)), status)


def test_checks_between_sizes_are_those_of_python() -> None:
    x, y = anyshape.input("x", "f32[n, 4]"), anyshape.input("y", "f32[m, 4]")
    f = anyshape.function([x, y], ops.add(x, y))
    c, python = Exported(exported(f)), anyshape.compile(f)
    inputs = [np.zeros((3, 4), np.float32), np.zeros((5, 4), np.float32)]
    said = []
    for run in (lambda: python(*inputs), lambda: c.check((3, 5)), lambda: c.run(inputs, (3, 5), 0, [80])):
        with pytest.raises(ShapeError) as raised:
            run()
        said.append(str(raised.value))
    assert len(set(said)) == 1 and "3" in said[0] and "5" in said[0]
    assert c.output_shape(0, (1, 5)) == (5, 4)


def test_bounds_of_the_caller_are_checked() -> None:
    x = anyshape.input("x", "f32[seq]")
    f = anyshape.function([x], ops.exp(x)).specialize(seq=(2, 9))
    e = exported(f)
    c = Exported(e)
    assert "seq: seq, 2 to 9" in e.header
    c.check((2,))
    c.check((9,))
    for wrong, said in ((1, "must be at least 2, got 1"), (10, "must be at most 9, got 10")):
        with pytest.raises(ShapeError, match=said):
            c.check((wrong,))


def test_dims_that_are_expressions_follow_from_the_callers() -> None:
    x, y = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[2*n + 1]")
    f = anyshape.function([x, y], ops.concat([x, y], axis=0))
    c = Exported(exported(f))
    (result,) = c(np.arange(3, dtype=np.float32), np.arange(7, dtype=np.float32))
    assert result.tolist() == [0, 1, 2, 0, 1, 2, 3, 4, 5, 6]
    with pytest.raises(OverflowedError, match=r"input y: dim 0 \(2\*n \+ 1\) does not fit"):
        c.check((2**62,))


def test_weights_are_inside_or_in_a_file() -> None:
    x = anyshape.input("x", "f32[n, 8]")
    w = np.random.default_rng(3).standard_normal((8, 16)).astype(np.float32)
    f = anyshape.function([x], ops.matmul(x, anyshape.constant(w)))
    a = np.ones((3, 8), np.float32)
    expected = anyshape.compile(f)(a)
    for where in ("inside", "file"):
        e = exported(f, weights=where)
        assert (f"{e.name}.weights" in e.files()) == (where == "file")
        c = Exported(e)
        np.testing.assert_allclose(c(a)[0], expected, rtol=1e-5, atol=1e-6)
    assert c._weights is not None
    c._weights[3] ^= 1
    with pytest.raises(StatusError, match="the weights are not those of this model"):
        c(a)


def test_what_is_made_is_the_same_each_time() -> None:
    first, second = exported(rows()), exported(rows())
    assert first.files() == second.files()


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v4", "aarch64-linux-gnu", "riscv64-linux-gnu", "wasm32"])
def test_other_targets_are_compiled(target: str) -> None:
    """The whole of an object: softmax has loops, kernels of several parts, and functions of the mathematics library that are ours."""
    x = anyshape.input("x", "f32[n, m]")
    e = export(anyshape.function([x], ops.softmax(x)), "soft", export_target(target), OPTIONS)
    magic = b"\0asm" if target == "wasm32" else b"\x7fELF"
    assert set(e.library) <= {"memcpy", "memmove", "memset"}
    assert e.object.startswith(magic) and e.files()["libsoft.a"].startswith(b"!<arch>\n")


@pytest.mark.parametrize("target", ["x86-64-v3", "riscv64-linux-gnu", "wasm32"])
def test_functions_of_the_c_library_are_reported(target: str) -> None:
    x = anyshape.input("x", "f32[n]")
    e = export(anyshape.function([x], ops.sin(x)), "sine", export_target(target), OPTIONS)
    assert "sinf" in e.library and not {"malloc", "free"} & undefined(e.object)


def test_a_model_is_called_as_its_function_or_else_as_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = anyshape.input("x", "f32[n]")
    unnamed, named = (anyshape.compile(anyshape.function([x], ops.exp(x), *name)) for name in ((), ("head",)))
    assert [p.name for p in unnamed.export(tmp_path / "bert-2")][:2] == ["bert_2.h", "bert_2.o"]
    assert b"bert_2_run(" in (tmp_path / "bert-2/bert_2.h").read_bytes()
    assert [p.name for p in named.export(tmp_path / "bert-2")][:2] == ["head.h", "head.o"]
    monkeypatch.chdir(tmp_path / "bert-2")
    assert [p.name for p in unnamed.export(".")][:2] == ["bert_2.h", "bert_2.o"]


def test_sizes_beyond_the_budget_are_refused() -> None:
    f, budget = rows(), 100_000
    e = exported(f, budget=budget)
    c = Exported(e)
    largest = {line.split()[0]: int(line.split()[4].rstrip(",")) for line in e.fits}
    assert list(largest) == ["n", "m", "k"]
    for name, n in largest.items():
        sizes = [1, 1, 1]
        sizes[list(largest).index(name)] = n
        assert c.arena_bytes(sizes) <= budget
        c.check(sizes)
        sizes[list(largest).index(name)] = n + 1
        needed = c.arena_bytes(sizes)
        assert needed > budget
        inputs = arrays(*sizes)
        for refuse in (partial(c.check, sizes), partial(c.run, inputs, sizes, needed, [0])):
            with pytest.raises(
                StatusError,
                match=f"^ARENA: {c.interface.name}: these sizes need {needed} bytes of memory, and the budget is {budget}",
            ):
                refuse()


def test_bounds_that_do_not_fit_the_budget_are_refused_at_once() -> None:
    f = rows().specialize(n=(1, 1000), m=(1, 64), k=(1, 64))
    needed = Exported(exported(f)).arena_bytes((1000, 64, 64))
    assert exported(f, budget=needed).fits
    with pytest.raises(UnsupportedError, match=f"needs {needed} bytes of memory at n = 1000, m = 64, k = 64") as raised:
        exported(f, budget=needed - 1)
    assert "n is at most" in str(raised.value) and "arena = " in str(raised.value)
    with pytest.raises(
        UnsupportedError, match=r"needs [0-9]+ bytes of memory at n = 1, m = 1, k = 1, and the budget is 1"
    ):
        exported(f, budget=1)


def test_a_refusal_for_the_budget_has_the_whole_formula() -> None:
    """Lines of a message that are too long lose their middle, and a formula without its middle tells no bytes."""
    m = Exported(exported(rows().specialize(n=(1, 1000), m=(1, 64), k=(1, 64)))).interface
    n = m.dims[0].symbol
    formula: Any = sum(((k * n + 1) // (k + 7) for k in range(1, 100)), start=n)
    assert len(str(formula)) > 1000
    for budget in (bytes_at(formula, {"n": 1}), 0):
        with pytest.raises(UnsupportedError) as raised:
            demand_budget([formula], m, budget)
        assert f"arena = {formula}" in " ".join(str(raised.value).split())


def test_what_is_refused() -> None:
    x = anyshape.input("x", "f32[...]")
    with pytest.raises(UnsupportedError, match=r"input x: f32\[...\]: export takes tensors of known rank only"):
        exported(anyshape.function([x], ops.exp(x)))
    with pytest.raises(ArgumentError, match="there is no target 'vax' to export for; there are x86-64-v2"):
        export_target("vax")
    own = [t.name for t in own_targets()]
    assert not {"wasm32", "riscv64-linux-gnu"} & {*own} and own == [n for n in TARGETS if n in own]
    for name in ("", "1x", "a-b", "int", "anyshape_x", "x" * 101):
        with pytest.raises(ArgumentError, match="name must be at most 100 letters"):
            checked_name(name)
    checked_name("x" * 100)


def test_names_in_c() -> None:
    assert unique(["n", "n", "x.shape[1]", "int", "2d", "é", "arena", "n_2"]) == [
        "n", "n_2", "x_shape_1", "d_int", "d_2d", "dim", "d_arena", "n_2_2",
    ]  # fmt: skip
    for text in ("bert.onnx", "", "1", "int", "é", "anyshape_x", "a b", "x" * 300):
        checked_name(name_from(text))
