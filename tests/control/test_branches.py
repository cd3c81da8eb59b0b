"""`if`: both sides, shapes that differ, conditions that are known, branches that cannot be taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, lists, ops
from anyshape.dims import bounds
from anyshape.errors import DtypeError, ShapeError, UnsupportedError
from anyshape.graph.verify import verify

X = np.arange(3, dtype=np.float32)


def doubled_or_moved() -> anyshape.Function:
    x, c = anyshape.input("x", "f32[n]"), anyshape.input("c", "bool[]")
    (y,) = control.if_(c, lambda: ops.concat([x, x], axis=0), lambda: ops.add(x, 1.0))
    return anyshape.function([x, c], ops.exp(y))


TEXT = """\
function main(%x: f32[n], %c: bool[]) {
  %0: f32[?0] = if(%x, %c) {
    then(%x: f32[n]) {
      %0: f32[2*n] = concat(%x, %x, axis=0)
      return output0=%0
    }
    otherwise(%x: f32[n]) {
      const %c0: f32[] = 1.0
      %0: f32[n] = add(%x, %c0)
      return output0=%0
    }
  }
  %1: f32[?0] = exp(%0)
  return output0=%1
}"""


def test_text_and_back() -> None:
    f = doubled_or_moved()
    assert str(f) == TEXT
    assert str(anyshape.parse(TEXT)) == TEXT
    verify(f)
    verify(anyshape.passes.optimise(f))


@pytest.mark.parametrize("n", [0, 1, 3, 100])
def test_both_sides(options: dict[str, Any], n: int) -> None:
    exe = anyshape.compile(doubled_or_moved(), **options)
    x = np.arange(n, dtype=np.float32) / 100
    np.testing.assert_allclose(exe(x, np.array(True)), np.exp(np.concatenate([x, x])), rtol=1e-6)
    np.testing.assert_allclose(exe(x, np.array(False)), np.exp(x + 1), rtol=1e-6)


def test_dims_that_agree_stay_known() -> None:
    x, c = anyshape.input("x", "f32[n, 4]"), anyshape.input("c", "bool[]")
    (y,) = control.if_(c, lambda: ops.exp(x), lambda: x)
    assert y.type == x.type


def test_contents_that_agree_stay_known() -> None:
    x, c = anyshape.input("x", "f32[n, 6]"), anyshape.input("c", "bool[]")
    (s,) = control.if_(c, lambda: np.array([-1, 2]), lambda: np.array([-1, 3]))
    (t,) = control.if_(c, lambda: ops.shape_of(x), lambda: ops.shape_of(ops.exp(x)))
    assert s.contents is not None and s.contents[0] == -1
    assert [str(e) for e in t.contents or ()] == ["n", "6"]
    exe = anyshape.compile(anyshape.function([x, c], ops.dyn.reshape(x, s)))
    a = np.zeros((4, 6), np.float32)
    assert exe(a, np.array(True)).shape == (12, 2)
    assert exe(a, np.array(False)).shape == (8, 3)


def test_a_known_condition_leaves_no_branch() -> None:
    x = anyshape.input("x", "f32[n]")
    (y,) = control.if_(True, lambda: ops.exp(x), lambda: ops.sqrt(x))
    g = anyshape.passes.optimise(anyshape.function([x], y))
    assert [n.op.full_name for n in g.nodes] == ["exp"]


def test_dyn_ops_in_branches_become_static() -> None:
    x, c = anyshape.input("x", "f32[n, 4]"), anyshape.input("c", "bool[]")
    s = ops.concat([np.array([2]), np.array([-1])], axis=0)
    (y,) = control.if_(c, lambda: ops.dyn.reshape(x, s), lambda: ops.dyn.reshape(ops.exp(x), s))
    g = anyshape.passes.dyn_to_static(anyshape.function([x, c], y))
    assert "static.reshape" in {n.op.full_name for n in g.all_nodes()}
    assert not any(n.op.variant == "dyn" for n in g.all_nodes())
    (node,) = g.nodes
    assert len(node.inputs) == 2, "the constant is not captured any more"


def test_axes_inside_that_only_a_run_tells(options: dict[str, Any]) -> None:
    x, axes, c = anyshape.input("x", "f32[n, m]"), anyshape.input("axes", "i64[1]"), anyshape.input("c", "bool[]")
    (y,) = control.if_(c, lambda: ops.slice(x, [1], [3], axes=axes), lambda: ops.exp(x))
    exe = anyshape.compile(anyshape.function([x, axes, c], y), **options)
    a = np.arange(20, dtype=np.float32).reshape(4, 5)
    np.testing.assert_array_equal(exe(a, np.array([1]), np.array(True)), a[:, 1:3])
    np.testing.assert_array_equal(exe(a, np.array([-2]), np.array(True)), a[1:3])
    np.testing.assert_allclose(exe(a, np.array([0]), np.array(False)), np.exp(a), rtol=1e-6)


def test_what_is_captured_and_not_read_is_let_go() -> None:
    x, y, c = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[n]"), anyshape.input("c", "bool[]")
    (z,) = control.if_(c, lambda: ops.where(True, x, y), lambda: x)
    g = anyshape.passes.optimise(anyshape.function([x, y, c], z))
    verify(g)
    assert len(g.nodes[0].inputs) <= 3


def test_conditions_on_shapes_cost_no_kernel(options: dict[str, Any]) -> None:
    x = anyshape.input("x", "f32[n]")
    n = ops.gather(ops.shape_of(x), 0)
    (y,) = control.if_(ops.greater(n, 4), lambda: ops.exp(x), lambda: x)
    exe = anyshape.compile(anyshape.function([x], y), **options)
    for size in (2, 7):
        a = np.arange(size, dtype=np.float32)
        np.testing.assert_allclose(exe(a), np.exp(a) if size > 4 else a, rtol=1e-6)


def test_nested_with_two_results(options: dict[str, Any]) -> None:
    x, c, d = anyshape.input("x", "f32[n]"), anyshape.input("c", "bool[]"), anyshape.input("d", "bool[]")

    def inner() -> Any:
        return control.if_(d, lambda: [ops.mul(x, 2.0), x], lambda: [x, ops.mul(x, 3.0)])

    y, z = control.if_(c, inner, lambda: [ops.concat([x, x], axis=0), x])
    exe = anyshape.compile(anyshape.function([x, c, d], [ops.exp(y), z]), **options)
    for p in (True, False):
        for q in (True, False):
            want = ([2 * X, X] if q else [X, 3 * X]) if p else [np.concatenate([X, X]), X]
            got = exe(X, np.array(p), np.array(q))
            np.testing.assert_allclose(got[0], np.exp(want[0]), rtol=1e-6)
            np.testing.assert_array_equal(got[1], want[1])


def test_a_branch_that_cannot_be_typed_fails_when_it_is_taken(options: dict[str, Any]) -> None:
    x, c = anyshape.input("x", "f32[n, 4]"), anyshape.input("c", "bool[]")
    (y,) = control.if_(c, lambda: ops.squeeze(x, axes=(1,)), lambda: x)
    f = anyshape.function([x, c], y)
    assert str(anyshape.parse(str(f))) == str(f)
    exe = anyshape.compile(f, **options)
    a = np.ones((2, 4), np.float32)
    np.testing.assert_array_equal(exe(a, np.array(False)), a)
    with pytest.raises(ShapeError, match="squeeze"):
        exe(a, np.array(True))


def test_checks_inside_a_branch_are_made_there(options: dict[str, Any]) -> None:
    x, y, c = anyshape.input("x", "f32[n]"), anyshape.input("y", "f32[m]"), anyshape.input("c", "bool[]")
    (z,) = control.if_(c, lambda: ops.add(x, y), lambda: x)
    exe = anyshape.compile(anyshape.function([x, y, c], z), **options)
    a, b = np.ones(2, np.float32), np.ones(3, np.float32)
    np.testing.assert_array_equal(exe(a, b, np.array(False)), a)
    with pytest.raises(ShapeError, match="2"):
        exe(a, b, np.array(True))


def test_dtypes_must_agree() -> None:
    x, c = anyshape.input("x", "f32[n]"), anyshape.input("c", "bool[]")
    with pytest.raises(
        DtypeError, match=r"result 0 is f32\[n\] in the branch then and f64\[n\] in the branch otherwise"
    ):
        control.if_(c, lambda: x, lambda: ops.cast(x, to="f64"))
    with pytest.raises(DtypeError, match=r"a condition must be bool, got f32\[n\]"):
        control.if_(x, lambda: x, lambda: x)


def test_ranks_that_differ(options: dict[str, Any]) -> None:
    x, c = anyshape.input("x", "f32[n, 4]"), anyshape.input("c", "bool[]")
    (y,) = control.if_(c, lambda: ops.static.reshape(x, newshape=(-1,)), lambda: x)
    assert y.type.shape is None
    exe = anyshape.compile(anyshape.function([x, c], ops.exp(y)), **options)
    a = np.ones((2, 4), np.float32)
    for p in (True, False, True):
        np.testing.assert_allclose(exe(a, np.array(p)), np.exp(a.reshape(-1) if p else a), rtol=1e-6)


def test_known_dims_that_differ_are_one_that_every_reader_checks(options: dict[str, Any]) -> None:
    """f32[2] and f32[3] is f32[?]: what needs another size than both is refused when it is built, and than one when that is taken."""
    x, y, c = anyshape.input("x", "f32[2]"), anyshape.input("y", "f32[3]"), anyshape.input("c", "bool[]")
    (z,) = control.if_(c, lambda: x, lambda: ops.exp(y))
    assert bounds(z.type.shape[0]) == (2, 3)
    a, b = np.ones(2, np.float32), np.ones(3, np.float32)
    plain = anyshape.compile(anyshape.function([x, y, c], z), **options)
    assert [plain(a, b, np.array(p)).shape for p in (True, False)] == [(2,), (3,)]
    declared = anyshape.compile(anyshape.function([x, y, c], ops.match_shape(z, "f32[2]")), **options)
    added = anyshape.compile(anyshape.function([x, y, c], ops.add(z, x)), **options)
    for run in (declared, added):
        assert run(a, b, np.array(True)).shape == (2,)
        with pytest.raises(ShapeError, match=r"if.shape\[0\] = 3"):
            run(a, b, np.array(False))
    for refused in (lambda: ops.match_shape(z, "f32[4]"), lambda: ops.add(z, np.ones(4, np.float32))):
        with pytest.raises(ShapeError, match="4"):
            refused()


def test_branches_within_branches_of_other_ranks(options: dict[str, Any]) -> None:
    """The condition inside is computed by the branch that is taken."""
    x, c = anyshape.input("x", "f32[4]"), anyshape.input("c", "bool[]")

    def inner(*dims: int) -> Any:
        return control.if_(ops.greater(ops.sum(x), 5.0), lambda: ops.reshape(x, dims), lambda: x)

    (y,) = control.if_(c, lambda: inner(2, 2), lambda: inner(2, 1, 2))
    exe = anyshape.compile(anyshape.function([x, c], ops.exp(y)), **options)
    for scale in (1.0, 2.0):
        a = np.full(4, scale, np.float32)
        for p in (True, False):
            shape = (4,) if scale == 1.0 else (2, 2) if p else (2, 1, 2)
            np.testing.assert_allclose(exe(a, np.array(p)), np.exp(a).reshape(shape), rtol=1e-6)


def large(v: Any, dims: tuple[int, ...] = (2, 2)) -> Any:
    """v in another rank where its elements are large."""
    return control.if_(ops.greater(ops.sum(v), 5.0), lambda: ops.reshape(v, dims), lambda: v)[0]


BODIES: dict[str, tuple[Any, Any]] = {
    "the size": (lambda v: ops.add(v, ops.cast(ops.size(large(v)), "f32")), lambda a: a + 4),
    "two in a row": (lambda v: flat(large(ops.add(flat(large(v)), 1.0), (2, 1, 2))), lambda a: a + 1),
    "one in another": (
        lambda v: flat(control.if_(ops.less(ops.sum(v), 9.0), lambda: large(v), lambda: ops.reshape(v, (4, 1)))[0]),
        lambda a: a,
    ),
}  # fmt: skip


def flat(v: Any) -> Any:
    return ops.reshape(v, (-1,))


@pytest.mark.parametrize("name", BODIES)
def test_branches_of_other_ranks_in_a_loop(options: dict[str, Any], name: str) -> None:
    """What reads the result of such a branch moves into it: code for each rank."""
    body, expected = BODIES[name]
    x, k = anyshape.input("x", "f32[4]"), anyshape.input("k", "i64[]")
    (y,) = control.loop(k, lambda i, v: [body(v)], [x])
    exe = anyshape.compile(anyshape.function([x, k], y), **options)
    for scale in (1.0, 2.0):
        want = a = np.full(4, scale, np.float32)
        for trips in range(3):
            np.testing.assert_allclose(exe(a, np.array(trips)), want, rtol=1e-6)
            want = expected(want)


def test_a_reader_that_one_branch_cannot_have_fails_when_that_is_taken(options: dict[str, Any]) -> None:
    x, k = anyshape.input("x", "f32[4]"), anyshape.input("k", "i64[]")
    (y,) = control.loop(k, lambda i, v: [flat(ops.transpose(large(v), (1, 0)))], [x])
    exe = anyshape.compile(anyshape.function([x, k], y), **options)
    a = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(exe(a, np.array(1)), [0, 2, 1, 3])
    with pytest.raises(ShapeError, match=r"static\.transpose: axis 1 is out of range for x of rank 1"):
        exe(a / 4, np.array(1))


def test_branches_of_other_ranks_in_a_function_that_is_called(options: dict[str, Any]) -> None:
    x, c = anyshape.input("x", "f32[n]"), anyshape.input("c", "bool[]")

    def body(v: Any, p: Any) -> Any:
        (y,) = control.if_(p, lambda: ops.expand_dims(v, (0,)), lambda: v)
        return control.if_(ops.greater(ops.sum(y), 5.0), lambda: v, lambda: ops.concat([v, v], axis=0))

    f = control.define(control.function("f", {"x": "f32[n]", "c": "bool[]"}, ["f32[m]"]), body)
    exe = anyshape.compile(anyshape.function([x, c], control.call(f, [x, c])), **options)
    for p in (True, False):
        assert exe(X, np.array(p)).shape == (6,)
        assert exe(X + 2, np.array(p)).shape == (3,)


def row_or_vector(v: Any, p: Any) -> Any:
    return control.if_(p, lambda: ops.expand_dims(v, (0,)), lambda: v)[0]


def declared(results: str, body: Any) -> Any:
    f = control.define(control.function("f", {"x": "f32[n]", "c": "bool[]"}, [results]), body)
    x, c = anyshape.input("x", "f32[n]"), anyshape.input("c", "bool[]")
    return anyshape.function([x, c], control.call(f, [x, c]))


DECLARED: dict[str, tuple[str, Any, Any]] = {
    "a name": ("f32[m]", lambda v, p: flat(row_or_vector(v, p)), lambda a: a),
    "a dim of a parameter": ("f32[n]", lambda v, p: flat(row_or_vector(v, p)), lambda a: a),
    "a scalar": ("f32[]", lambda v, p: ops.sum(row_or_vector(v, p), keepdims=False), np.sum),
    "a matrix": ("f32[2, n]", lambda v, p: ops.stack([flat(row_or_vector(v, p)), v], axis=0), lambda a: np.stack([a, a])),
}  # fmt: skip


@pytest.mark.parametrize("name", DECLARED)
def test_a_result_whose_rank_branches_decide_has_the_declared_one(options: dict[str, Any], name: str) -> None:
    """What makes it that of the declaration moves into the branches, with the check that it is."""
    results, body, expected = DECLARED[name]
    exe = anyshape.compile(declared(results, body), **options)
    for p in (True, False):
        np.testing.assert_allclose(exe(X, np.array(p)), expected(X), rtol=1e-6, strict=True)


@pytest.mark.parametrize(
    ("results", "fits"), [("f32[m]", False), ("f32[n]", False), ("f32[1, n]", True), ("f32[m, n]", True)]
)
def test_a_branch_without_the_declared_rank_fails_if_it_is_taken(
    options: dict[str, Any], results: str, fits: bool
) -> None:
    exe = anyshape.compile(declared(results, row_or_vector), **options)
    np.testing.assert_array_equal(exe(X, np.array(fits)), X[None] if fits else X, strict=True)
    with pytest.raises(ShapeError, match=r"f: result 0\): the rank differs: expected \[.*\], got \[(1, )?n\]"):
        exe(X, np.array(not fits))


def test_a_declared_rank_of_no_branch_is_refused_with_those_of_both() -> None:
    f = declared("f32[m, n, k]", row_or_vector)
    with pytest.raises(
        ShapeError, match=r"then: .*f: result 0\): .* expected \[.*\], got \[1, n\]; otherwise: .*, got \[n\]"
    ):
        anyshape.compile(f)


def test_a_result_of_any_rank_is_declared_as_the_element_of_a_list(options: dict[str, Any]) -> None:
    with pytest.raises(
        UnsupportedError, match=r"declares f32\[\.\.\.\]: .* as the element of a list, list\[f32\[\.\.\.\]\]"
    ):
        control.function("f", {"x": "f32[n]"}, ["f32[...]"])
    listed = declared("list[f32[...]]", lambda v, p: lists.of([row_or_vector(v, p)]))
    f = anyshape.compile(anyshape.function(listed.params, ops.exp(lists.at(listed.results[0], 0))), **options)
    for p in (True, False):
        np.testing.assert_allclose(f(X, np.array(p)), np.exp(X[None] if p else X), rtol=1e-6, strict=True)


@pytest.mark.parametrize("body", [large, lambda v: flat(large(v))])
def test_a_rank_that_no_branch_decides_is_refused_with_both_types(body: Any) -> None:
    x, k = anyshape.input("x", "f32[4]"), anyshape.input("k", "i64[]")

    def iteration(i: Any, v: Any) -> Any:
        for _ in range(9):
            v = body(v)
        return [v]

    exe = anyshape.compile(anyshape.function([x, k], control.loop(k, iteration, [x])[0]))
    said = r"result 0 is f32\[2, 2\] in the branch then and f32\[4\] in the branch otherwise: code is compiled for one rank"
    with pytest.raises(UnsupportedError, match=said):
        exe(np.ones(4, np.float32), np.array(2))


def test_no_branch_that_can_be_taken_is_refused_with_why_of_both() -> None:
    x, c = anyshape.input("x", "f32[n, 4]"), anyshape.input("c", "bool[]")
    with pytest.raises(
        ShapeError, match=r"no branch can be taken: then: static.squeeze: .*; otherwise: add: .*\[2\] and \[3\]"
    ):
        control.if_(c, lambda: ops.squeeze(x, axes=(1,)), lambda: ops.add(np.ones(2), np.ones(3)))


def test_saved_and_loaded(tmp_path: Any) -> None:
    exe = anyshape.compile(doubled_or_moved())
    exe.save(tmp_path / "m")
    again = anyshape.load(tmp_path / "m")
    for p in (True, False):
        np.testing.assert_array_equal(again(X, np.array(p)), exe(X, np.array(p)))
        np.testing.assert_array_equal(again(X[:0], np.array(p)), exe(X[:0], np.array(p)))
    assert str(again.function) == TEXT


def test_a_result_of_which_only_the_size_matters(options: dict[str, Any]) -> None:
    x, c = anyshape.input("x", "f32[n]"), anyshape.input("c", "bool[]")
    (y,) = control.if_(c, lambda: ops.concat([x, x], axis=0), lambda: x)
    exe = anyshape.compile(anyshape.function([x, c], ops.shape_of(y)), **options)
    assert [exe(X, np.array(p)).tolist() for p in (True, False)] == [[6], [3]]
