"""A view between two maps is nowhere: their dims are split alike, and both are one kernel. So are a concat and what is made of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.dims import symbol
from anyshape.dtypes import F32
from anyshape.equations import Tensor, Var
from anyshape.equations.builder import Equation
from anyshape.equations.expr import Expr, read, scalar
from anyshape.lower import Group, host_target, lower_group
from anyshape.lower.llvm import target_probe
from anyshape.lower.schedule.kernel_schedule import schedule_group
from anyshape.lower.target import Target
from anyshape.passes.fuse import fuse
from anyshape.passes.pieces import by_pieces
from anyshape.passes.steps import KernelStep
from anyshape.passes.views import common, joined, merged_targets
from anyshape.vm import compile

RNG = np.random.default_rng(6)
B, N, M = symbol("b", 1), symbol("n", 1), symbol("m", 1)


def kernels(f: Any) -> list[list[str]]:
    return [[n.op.name for n in s.nodes] for s in fuse(f).steps if isinstance(s, KernelStep)]


def agree(f: Any, *shapes: tuple[int, ...], kernels: int) -> None:
    """Native code, on any number of threads, and the interpreter of one kernel per node give the same bits."""
    fused, slow = [compile(f, threads=n) for n in (1, 2)], compile(f, kernels="interpret", fuse=False)
    assert fused[0].report.kernels == kernels
    for shape in shapes:
        x = RNG.normal(size=shape).astype(np.float32)
        (want,) = slow.run({"x": x})
        for exe in fused:
            (got,) = exe.run({"x": x})
            assert got.shape == want.shape
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("a", "b", "want"),
    [
        ((4 * B, N), (B, 4, N), (B, 4, N)),
        ((B, 64), (B, 4, 16), (B, 4, 16)),
        ((6, 4), (4, 6), None),
        ((6, 4), (3, 8), (3, 2, 4)),
        ((B * N, M), (B, N * M), (B, N, M)),
        ((1, B, 1), (B,), (B,)),
        ((), (1, 1), ()),
        ((B + N,), (B, N), None),
        ((B, N), (N, B), None),
        ((0, 4), (4, 0), None),
        ((B,), (B, N), None),
    ],
)
def test_common_refinements(a: Any, b: Any, want: Any) -> None:
    assert common(a, b) == want
    assert common(b, a) == want


def moved(source: Tensor, target: Tensor, order: tuple[int, ...]) -> Equation:
    index = [Var(f"i{k}", n) for k, n in enumerate(target.shape)]
    return Equation(target, tuple(index), read(source, [index[k] for k in order]))


def test_variables_are_split_where_they_are_indices_and_numbers() -> None:
    x, heads = Tensor("x", F32, (B, N, 4)), Tensor("h", F32, (B, 4, N))
    merged, y = Tensor("v", F32, (4 * B, N)), Tensor("y", F32, (4 * B, N))
    i, j = Var("i", 4 * B), Var("j", N)
    last = Equation(y, (i, j), read(merged, [i, j]) * read(Tensor("c", F32, (4 * B,)), [i]))
    merger = joined([moved(x, heads, (0, 2, 1)), last], [(merged, heads)])
    assert merger is not None
    assert [str(q) for q in merger.equations] == [
        "v[i0, i1, i2] = x[i0, i2, i1]",
        "y[i_0, i_1, j] = (v[i_0, i_1, j] * c[((i_0 * 4) + i_1)])",
    ]
    assert merger.tensor(y).shape == (B, 4, N)
    assert merger.tensor(merged) is merger.tensor(heads)


def test_an_index_that_is_no_variable_keeps_the_view() -> None:
    """Places from 2 on of a dim that is 4 * b cannot be said by b and 4."""
    x, heads = Tensor("x", F32, (B, 4)), Tensor("h", F32, (B, 4))
    merged, y = Tensor("v", F32, (4 * B,)), Tensor("y", F32, (4 * B - 2,))
    i = Var("i", 4 * B - 2)
    assert joined([moved(x, heads, (0, 1)), Equation(y, (i,), read(merged, [i + 2]))], [(merged, heads)]) is None


def test_a_piece_is_not_split_for_another_that_is_read_through_a_view() -> None:
    """Phases of a transposed convolution are interleaved apart from what they are joined to, which may have another layout."""
    x, heads = Tensor("x", F32, (B, N, 4)), Tensor("h", F32, (B, 4, N))
    merged, beside, y = Tensor("v", F32, (4 * B, N)), Tensor("z", F32, (4 * B, M)), Tensor("y", F32, (4 * B, N + M))
    i, j, k = Var("i", 4 * B), Var("j", N), Var("k", M)
    pieces = [Equation(y, (i, j), read(merged, [i, j])), Equation(y, (i, scalar(N) + k), read(beside, [i, k]))]
    first, own = moved(x, heads, (0, 2, 1)), Tensor("o", F32, (B, 4, M))
    assert joined([first, *pieces], [(merged, heads)]) is None
    assert joined([first, *pieces], [(merged, heads), (beside, own)]) is not None


def test_pieces_that_are_not_the_whole_are_not_taken_apart() -> None:
    t, y, i = Tensor("t", F32, (N + M,)), Tensor("y", F32, (N + M,)), Var("i", N + M)
    a, b = Var("a", N), Var("b", M)
    first = Equation(t, (a,), scalar(1, F32))
    after = Equation(y, (i,), read(t, [i]))
    second = Equation(t, (scalar(N) + b,), scalar(2, F32))
    equations = by_pieces([first, second, after])
    assert equations is not None
    assert [str(q) for q in equations] == [
        "t_0[a] = 1", "t[a] = t_0[a]", "t_1[b] = 2", "t[(n + b)] = t_1[b]", "y[a] = t_0[a]", "y[(n + b)] = t_1[b]",
    ]  # fmt: skip
    assert by_pieces([first, Equation(t, (scalar(N + 1) + b,), scalar(2, F32)), after]) is None


def heads(x: Any) -> Any:
    return ops.transpose(ops.reshape(x, [0, 0, 4, 8]), axes=[0, 2, 1, 3])


def test_heads_split_swapped_and_merged_are_one_kernel() -> None:
    x = anyshape.input("x", "f32[b, n, 32]")
    apart = heads(ops.relu(x))
    back = ops.reshape(ops.transpose(ops.neg(apart), axes=[0, 2, 1, 3]), [0, 0, 32])
    f = anyshape.function([x], {"y": ops.add(back, np.arange(32, dtype=np.float32))})
    assert len(kernels(f)) == 1
    agree(f, (1, 1, 32), (2, 3, 32), (3, 70, 32), (2, 0, 32), kernels=1)


def test_what_is_made_of_a_concat_is_made_of_its_pieces() -> None:
    x = anyshape.input("x", "f32[n, 32]")
    both = ops.concat([ops.neg(x), ops.mul(x, x)], axis=0)
    f = anyshape.function([x], {"y": ops.relu(ops.reshape(both, [-1, 4, 8]))})
    agree(f, (1, 32), (5, 32), (400, 32), (0, 32), kernels=1)


def test_a_move_read_twice_joins_both_readers() -> None:
    x = anyshape.input("x", "f32[b, n, 32]")
    transposed = ops.transpose(x, axes=[1, 0, 2])
    f = anyshape.function([x], {"y": ops.concat([ops.relu(transposed), ops.neg(transposed)], axis=2)})
    assert len(kernels(f)) == 1
    agree(f, (1, 1, 32), (2, 3, 32), (3, 70, 32), kernels=1)


def test_a_view_that_others_see_stays() -> None:
    x = anyshape.input("x", "f32[b, 32]")
    seen = ops.reshape(ops.exp(x), [-1, 4, 8])
    f = anyshape.function([x], {"y": ops.relu(seen), "seen": seen})
    a = RNG.normal(size=(3, 32)).astype(np.float32)
    y, s = compile(f).run({"x": a})
    np.testing.assert_array_equal(y, np.maximum(s, 0))


def test_a_concat_before_rows_is_a_kernel_of_its_own() -> None:
    """A concat in the kernel of its rows would be computed as a whole first, by one thread."""
    x = anyshape.input("x", "f32[b, 32]")
    f = anyshape.function([x], {"y": ops.softmax(ops.concat([x, ops.neg(x)], axis=1), axis=-1)})
    assert len(kernels(f)) == 2


@pytest.mark.parametrize("axis", [0, 1])
def test_a_part_of_a_concat_is_not_made_of_whole_pieces(axis: int) -> None:
    """Whole pieces would end behind the part."""
    x = anyshape.input("x", "f32[b, 6]")
    both = ops.concat([ops.abs(x), x], axis=axis)
    for part in (ops.slice(both, [0], [-1], [axis]), ops.slice(both, [1], [4], [axis])):
        f = anyshape.function([x], {"y": ops.neg(part)})
        assert not [names for names in kernels(f) if {"concat", "slice"} <= set(names)]
        agree(f, (3, 6), (2, 6), kernels=2)


def grouped(index: Any, extents: tuple[Any, Any] = (4, N), shape: tuple[Any, ...] = (B, 4 * N)) -> list[Equation]:
    """A target y[i, index(u, j)], and z[i, k] = 2 y[i, k]."""
    x, y, z = Tensor("x", F32, (B, *extents)), Tensor("y", F32, shape), Tensor("z", F32, shape)
    i, u, j, k = Var("i", B), Var("u", extents[0]), Var("j", extents[1]), Var("k", shape[1])
    two: Expr = scalar(2, F32)
    return [
        Equation(y, (i, index(u, j)), read(x, (i, u, j))),
        Equation(z, (i, k), read(y, (i, k)) * two),
    ]


def test_variables_that_a_target_merges_are_those_of_its_readers() -> None:
    equations = grouped(lambda u, j: u * N + j)
    (y,) = merged_targets(equations)
    assert y is equations[0].target
    split = joined(equations, [(y, y)])
    assert split is not None
    first, second = split.equations
    assert first.target.shape == second.target.shape == split.tensor(y).shape == (B, 4, N)
    assert first.index == first.variables and second.index == second.variables
    assert [v.extent for v in second.variables if isinstance(v, Var)] == [B, 4, N]


@pytest.mark.parametrize(
    ("index", "extents", "shape"),
    [
        (lambda u, j: u * N + j + 1, (4, N), (B, 4 * N + 1)),  # moved by one
        (lambda u, j: j * 4 + u, (4, N), (B, 4 * N)),  # in the other order
        (lambda u, j: u * N + j, (4, N), (B, 4 * N + 3)),  # not all of the dim
        (lambda u, j: u + j, (4, N), (B, N + 3)),
        (lambda u, j: j, (4, N), (B, N)),
    ],
)
def test_other_indices_of_targets_merge_nothing(index: Any, extents: Any, shape: Any) -> None:
    assert not merged_targets(grouped(index, extents, shape))


def test_what_is_merged_and_read_by_nobody_or_elsewhere_stays() -> None:
    equations = grouped(lambda u, j: u * N + j)
    assert not merged_targets(equations[:1])
    q = equations[1]
    i, k = q.variables
    moved = Equation(q.target, q.index, read(equations[0].target, (i, (k + 1) % (4 * N))))
    (y,) = merged_targets([equations[0], moved])
    assert joined([equations[0], moved], [(y, y)]) is None


def test_maps_behind_a_product_with_columns_in_groups_are_its_stores() -> None:
    """A product of 4-bit weights writes y[i, group * 64 + column]; what is added behind it is no loop of its own."""
    a, other = anyshape.input("a", "f32[m, 64]"), anyshape.input("other", "f32[m, 192]")
    codes = RNG.integers(0, 256, (3, 2, 16, 64), dtype=np.uint8)
    scale = RNG.normal(size=(3, 2, 64)).astype(np.float32)
    y = ops.matmul_nbits(a, anyshape.constant(codes), anyshape.constant(scale))
    f = anyshape.function([a, other], ops.add(ops.mul(y, ops.sigmoid(y)), other))
    (step,) = [s for s in fuse(f).steps if isinstance(s, KernelStep) and len(s.nodes) > 1]
    inputs, outputs = (tuple(step.tensors[v] for v in values) for values in (step.inputs, step.outputs))
    group = Group("g", step.equations, inputs, outputs=outputs)
    assert lower_group(group, host_target()).schedule == ("product",) and not schedule_group(group).serial
    slow, fused = compile(f, kernels="interpret", fuse=False), [compile(f, threads=n) for n in (1, 2)]
    for m in (0, 1, 5, 70):
        x, o = (RNG.normal(size=(m, n)).astype(np.float32) for n in (64, 192))
        (want,) = slow.run({"a": x, "other": o})
        for exe in fused:
            np.testing.assert_allclose(exe.run({"a": x, "other": o})[0], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("target", [host_target(), host_target().limited("avx2")], ids=["host", "avx2"])
def test_what_the_next_group_of_columns_is_computed_of_is_prefetched(
    monkeypatch: pytest.MonkeyPatch, target: Target
) -> None:
    """Bytes of the next group come from memory while this one is multiplied; on a processor whose first cache is small, or that reads ahead
    by itself, nothing is."""
    many, few = (replace(target, l1_bytes=size << 10) for size in (48, 32))  # miss buffers
    monkeypatch.setattr(target_probe, "measured_reads_ahead", lambda target: False)
    assert fetches(64, many) and not fetches(64, few)
    assert not fetches(256, many)  # the next group is too far off
    here = replace(many, foreign=False)
    monkeypatch.setattr(target_probe, "host_target", lambda: here)
    monkeypatch.setattr(target_probe, "measured_reads_ahead", lambda target: True)
    assert not fetches(64, here)


INTO_FIRST_CACHE = "i32 0, i32 3, i32 1)"
"""Operands of a prefetch of the next group; streams of words are prefetched into the second cache"""


def fetches(columns: int, target: Target) -> bool:
    """Whether a product of weights in groups of so many columns prefetches into the first cache."""
    a = anyshape.input("a", "f32[m, 64]")
    codes, scale = np.zeros((3, 2, 16, columns), np.uint8), np.ones((3, 2, columns), np.float32)
    f = anyshape.function([a], ops.matmul_nbits(a, anyshape.constant(codes), anyshape.constant(scale)))
    (step,) = [s for s in fuse(f).steps if isinstance(s, KernelStep) and s.nodes[0].op.name == "matmul_nbits"]
    inputs, outputs = (tuple(step.tensors[v] for v in values) for values in (step.inputs, step.outputs))
    group = Group("g", step.equations, inputs, outputs=outputs)
    return INTO_FIRST_CACHE in lower_group(group, target).text
