"""Passes as text in, text out."""

import numpy as np
import pytest

import anyshape
from anyshape import Function, ops, passes
from anyshape.dims import bounds
from anyshape.errors import ShapeError
from anyshape.graph.verify import verify
from anyshape.passes import pipeline
from anyshape.types import parse_type
from tests.counting import calls


def run_pass(name: str, text: str) -> list[str]:
    """The body lines of the function after the pass."""
    f = pipeline.PASSES[name](anyshape.parse(text))
    verify(f)
    return [line.strip() for line in str(f).splitlines()[1:-1]]


def test_dyn_to_static_takes_constant_operands_and_keeps_other_attributes():
    text = """function main(%x: f32[n, 6]) {
      const %c0: i64[2] = [-1, 3]
      %0: f32[2*n, 3] = dyn.reshape(%x, %c0, allowzero=true)
      return y=%0
    }"""
    assert run_pass("dyn_to_static", text) == [
        "%0: f32[2*n, 3] = static.reshape(%x, newshape=[-1, 3], allowzero=true)",
        "return y=%0",
    ]


def test_what_depends_on_a_symbol_stays_an_operand():
    text = """function main(%x: f32[n, 6]) {
      %0: i64[2] = shape_of(%x)
      %1: f32[n, 6] = dyn.broadcast_to(%x, %0)
      return y=%1
    }"""
    assert "%1: f32[n, 6] = dyn.broadcast_to(%x, %0)" in run_pass("dyn_to_static", text)


def test_fold_knows_contents_of_shape_arithmetic():
    text = """function main(%x: f32[n, 6]) {
      %0: i64[2] = shape_of(%x)
      const %c0: i64[1] = [1]
      %1: i64[1] = gather(%0, %c0, axis=0)
      return y=%1
    }"""
    assert run_pass("fold", text) == ["const %c0: i64[1] = [6]", "return y=%c0"]


def test_constants_fold():
    f = anyshape.function([], ops.add(anyshape.constant(np.arange(3.0)), anyshape.constant(np.ones(3))))
    (result,) = passes.fold(f).results
    np.testing.assert_array_equal(result.constant, [1, 2, 3])


def test_equal_calls_are_made_once():
    text = """function main(%x: f32[n]) {
      %0: f32[n] = exp(%x)
      %1: f32[n] = exp(%x)
      %2: f32[n] = add(%0, %1)
      return y=%2
    }"""
    assert run_pass("eliminate_common_subexpressions", text) == [
        "%0: f32[n] = exp(%x)",
        "%1: f32[n] = add(%0, %0)",
        "return y=%1",
    ]


def test_two_reshapes_by_equal_computed_shapes_become_one():
    text = """function main(%x: f32[n, 4]) {
      dim n in 1..
      const %c0: i64[1] = [-1]
      %0: i64[2] = shape_of(%x)
      %1: i64[2] = shape_of(%x)
      %2: f32[4*n] = dyn.reshape(%x, %c0)
      %3: f32[n, 4] = dyn.reshape(%2, %0)
      %4: f32[n, 4] = dyn.reshape(%2, %1)
      %5: f32[n, 4] = add(%3, %4)
      return y=%5
    }"""
    assert run_pass("optimise", text)[1:] == ["%0: f32[n, 4] = add(%x, %x)", "return y=%0"]


FLAT = {
    "-1": lambda x: ops.reshape(x, (-1,)),
    "the size": lambda x: ops.reshape(x, (x.size,)),
    "a product of dims": lambda x: ops.reshape(x, (x.shape[0] * x.shape[1],)),
    "a vector of the size": lambda x: ops.dyn.reshape(x, ops.expand_dims(ops.size(x), (0,))),
    "a method": lambda x: x.reshape(x.size),
    "another view before": lambda x: ops.reshape(ops.expand_dims(x, (0,)), (-1,)),
}
ONE_MORE = {
    "codes": lambda x: ops.reshape(x, (0, 0, 1)),
    "dims": lambda x: ops.reshape(x, (x.shape[0], x.shape[1], 1)),
    "a dim and -1": lambda x: ops.reshape(x, (-1, x.shape[1], 1)),
    "a code and -1": lambda x: ops.reshape(x, (0, -1, 1)),
    "an axis": lambda x: ops.expand_dims(x, (2,)),
}


@pytest.mark.parametrize(
    "spellings, low", [(FLAT, 0), (FLAT, 1), (ONE_MORE, 1)], ids=["flat or empty", "flat", "one more axis"]
)
def test_views_of_one_shape_are_one_however_it_is_spelled(spellings, low):
    """Views of several dims are of sizes that are at least 1: a computed 0 is the code that copies a dim."""
    x = anyshape.input("x", parse_type("f32[n, m]", low=low))
    f = passes.optimise(anyshape.function([x], [ops.exp(spell(x)) for spell in spellings.values()]))
    verify(f)
    assert len(set(f.results)) == 1
    assert sum(bool(node.op.view) for node in f.nodes) == 1
    y = np.arange(6, dtype=np.float32).reshape(2, 3)
    (shape,) = {a.shape for a in anyshape.compile(f)(y)}
    assert shape == ((6,) if spellings is FLAT else (2, 3, 1))


def test_a_vector_of_the_size_is_one_view_in_the_program_for_sizes_of_0():
    """ONNX can copy dim 0 for the 0 of an empty tensor only if that is 0, so the computed 0 is the size either way."""
    x = anyshape.input("x", "f32[n, m]")
    f = anyshape.function([x], [ops.exp(spell(x)) for spell in FLAT.values()])
    assert [node.attrs for node in passes.optimise(f).nodes if node.op.view] == [
        {"newshape": (-1,), "allowzero": False}
    ]
    compiled = anyshape.compile(f)
    for shape in [(2, 3), (0, 3), (3, 0), (0, 0)]:
        assert {a.shape for a in compiled(np.zeros(shape, np.float32))} == {(shape[0] * shape[1],)}


def test_computed_zeros_of_two_dims_stay_codes():
    x = anyshape.input("x", "f32[n, m]")
    views = [ops.reshape(x, (x.size, 1)), ops.reshape(x, (-1, 1))]
    f = passes.optimise(anyshape.function([x], [ops.exp(v) for v in views]))
    assert len(set(f.results)) == 2
    with pytest.raises(ShapeError, match=r"cannot view 0 elements as \[3, 1\]"):
        anyshape.compile(f)(np.zeros((3, 0), np.float32))


def test_views_of_other_shapes_or_of_more_checks_stay():
    x, s = anyshape.input("x", parse_type("f32[n, m]", low=1)), anyshape.input("s", "i64[1]")
    k = anyshape.input("k", "i64[]")
    views = [
        ops.reshape(x, (-1,)), ops.dyn.reshape(x, s), ops.reshape(x, (x.shape[1], -1)), ops.expand_dims(x, (0,)),
        ops.match_shape(x, "f32[a, a]"), ops.dyn.flatten(x, k),
    ]  # fmt: skip
    f = passes.optimise(anyshape.function([x, s, k], [ops.exp(v) for v in views]))
    assert len(set(f.results)) == len(views)
    y = np.ones((2, 2), np.float32)
    assert [a.shape for a in anyshape.compile(f)(y, np.array([4]), np.array(1))] == [
        (4,),
        (4,),
        (2, 2),
        (1, 2, 2),
        (2, 2),
        (2, 2),
    ]
    square = anyshape.function(
        [x], [ops.exp(ops.reshape(x, (x.shape[1], -1))), ops.exp(ops.match_shape(x, "f32[a, a]"))]
    )
    with pytest.raises(ShapeError):
        anyshape.compile(square)(np.ones((2, 3), np.float32))


def test_calls_with_equal_known_elements_are_one():
    text = """function main(%x: f32[n, 4], %y: f32[n, 5]) {
      const %c0: i64[1] = [0]
      const %c1: i64[] = 0
      const %c2: i64[] = 1
      %0: i64[2] = shape_of(%x)
      %1: i64[] = gather(%0, %c1, axis=0)
      %2: i64[2] = shape_of(%y)
      %3: i64[] = gather(%2, %c1, axis=0)
      %4: i64[n] = dyn.arange(%c1, %1, %c2)
      %5: i64[n] = dyn.arange(%c1, %3, %c2)
      %6: i64[n] = add(%4, %5)
      return y=%6
    }"""
    lines = run_pass("optimise", text)
    assert sum("arange" in line for line in lines) == 1 and any("add(%2, %2)" in line for line in lines), lines


def test_transposes_that_undo_each_other_vanish():
    text = """function main(%x: f32[n, m]) {
      %0: f32[m, n] = static.transpose(%x, axes=[1, 0])
      %1: f32[n, m] = static.transpose(%0, axes=[1, 0])
      return y=%1
    }"""
    assert run_pass("optimise", text) == ["return y=%x"]


def test_sizes_are_read_of_what_has_them_first():
    """The operand has no other reader then; where it has other sizes, its elements are read, or it is refused for some, it stays."""
    x, y = anyshape.input("x", "f32[n, m]"), anyshape.input("y", "f32[k]")

    def read(v):
        f = passes.optimise(anyshape.function([x, y], [v]))
        (reader,) = [n for n in f.nodes if n.outputs[0] is f.results[0]]
        return reader.inputs[0]

    assert read(ops.shape_of(ops.exp(ops.cast(x, to="f64")))) is x
    assert read(ops.shape_of(ops.softmax(x, axis=1), start=1)) is x
    assert read(ops.shape_of(ops.transpose(x, axes=[1, 0]))).node is not None
    assert read(ops.neg(ops.exp(x))).node is not None
    assert read(ops.shape_of(ops.add(x, y))).node is not None


def test_dead_code_goes():
    x = anyshape.input("x", "f32[n]")
    ops.exp(x)
    assert len(anyshape.function([x], ops.neg(x)).nodes) == 1


def test_an_equality_of_entry_dims_is_checked_once_and_known_everywhere():
    text = """function main(%a: f32[i, n], %b: f32[m, j], %c: f32[m]) {
      %0: f32[i, j] = matmul(%a, %b)
      %1: f32[i, n] = add(%a, %c)
      return y=%0, z=%1
    }"""
    f = passes.optimise(anyshape.parse(text))
    assert len(f.checks) == 1
    assert [str(v.type) for v in f.results] == ["f32[i, j]", "f32[i, n]"]
    run = anyshape.compile(f)
    ones = [np.ones(s, np.float32) for s in ((2, 3), (3, 5), (3,))]
    assert [y.shape for y in run(*ones)] == [(2, 5), (2, 3)]


@pytest.mark.parametrize("name", sorted(pipeline.PASSES))
def test_passes_keep_results(name):
    x = anyshape.input("x", "f32[n, 6]")
    y = ops.dyn.reshape(ops.softmax(ops.transpose(ops.transpose(x))), ops.concat([np.array([-1]), np.array([3])]))
    f = anyshape.function([x], ops.add(y, ops.exp(np.float32(0))))
    array = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    before, after = anyshape.compile(f)(array), anyshape.compile(pipeline.PASSES[name](f))(array)
    np.testing.assert_allclose(before, after, rtol=1e-6)


def chain(length: int) -> anyshape.Function:
    y = x = anyshape.input("x", "f32[n, 4]")
    for _ in range(length):
        y = ops.dyn.reshape(ops.neg(y), ops.shape_of(y))
    return anyshape.function([x], y)


def test_the_walk_is_linear():
    graphs = [chain(n) for n in (50, 100, 400)]
    passes.optimise(graphs.pop(0))  # what is done once for a process
    short, long = (calls(lambda f=f: passes.optimise(f)) for f in graphs)
    assert long < 5 * short


def test_a_bound_on_an_entry_dim_cleans_the_types_of_what_follows():
    """Positions are cut from a table of 512: adding them to rows says that there are at most 512, and then min() is gone."""
    x = anyshape.input("x", "f32[n, 4]")
    table = anyshape.constant(np.ones((512, 4), np.float32))
    y = ops.add(x, ops.dyn.slice(table, np.array([0]), ops.slice(ops.shape_of(x), (0,), (1,))))
    f = passes.optimise(anyshape.function([x], y))
    assert [str(c.cond) for c in f.checks] == ["n <= 512"] or "n == 1" in str(f.checks[0].cond)
    assert [str(c.cond) for c in f.checks] == ["n <= 512"]
    assert str(f.results[0].type) == "f32[n, 4]"
    run = anyshape.compile(f)
    assert run(np.ones((5, 4), np.float32)).shape == (5, 4)
    with pytest.raises(anyshape.errors.ShapeError, match="513"):
        run(np.ones((513, 4), np.float32))


@pytest.mark.parametrize("size", ["n", "0"])
def test_what_is_refused_is_refused_where_an_empty_tensor_is_looked_at(size: str) -> None:
    """The elements of nothing are known, and what would write to them runs all the same."""
    x, at, u = anyshape.input("x", f"i64[{size}]"), anyshape.input("at", "i64[1]"), anyshape.input("u", "i64[]")
    y = ops.scatter_nd(x, at, u)
    f = anyshape.compile(Function([x, at, u], [y, ops.neg(y)]))
    with pytest.raises(ShapeError, match="out of range for axis 0 of y with size 0"):
        f(np.zeros(0, np.int64), np.zeros(1, np.int64), np.int64(7))


def test_a_rewrite_drops_no_check_that_only_the_run_makes():
    """Checks of the outer call and of those within it are kept; what a check of the new call implies is one less."""
    x, sizes = anyshape.input("x", "f32[n]"), anyshape.input("sizes", "i64[2]")
    two_at_once = anyshape.function([x, sizes], ops.reshape(ops.reshape(x, sizes), [-1]))
    exe = anyshape.compile(two_at_once)
    np.testing.assert_array_equal(exe(np.ones(4, np.float32), np.array([2, 2])), np.ones(4))
    with pytest.raises(ShapeError, match=r"cannot view 3 elements as \[2, 2\]"):
        exe(np.ones(3, np.float32), np.array([2, 2]))


def test_a_rewrite_is_made_where_the_entry_checks_or_the_new_call_does():
    entry = """function main(%x: f32[n]) {
      %0: f32[2, 3] = static.reshape(%x, newshape=[2, 3])
      %1: f32[6] = static.reshape(%0, newshape=[6])
      return y=%1
    }"""
    assert sum("reshape" in line for line in run_pass("optimise", entry)) == 1
    same = """function main(%x: f32[2, n], %s: i64[1]) {
      %0: f32[2*n] = static.reshape(%x, newshape=[-1])
      %1: f32[select(s[0] == -1, 2*n, s[0])] = dyn.reshape(%0, %s, allowzero=true)
      return y=%1
    }"""
    assert sum("reshape" in line for line in run_pass("optimise", same)) == 1


def _grouped_and_resized() -> Function:
    """The second size of w, by which is divided, is a third of that of x."""
    x, w, bias = (anyshape.input(k, t) for k, t in (("x", "f32[b, c, n]"), ("w", "f32[o, i, k]"), ("bias", "f32[o]")))
    groups = ops.add(anyshape.constant(np.array(1)), anyshape.constant(np.array(2)))
    y = ops.conv_run_of_5(x, w, bias, groups=groups)
    sizes = ops.concat([anyshape.constant(np.array([0])), ops.shape_of(w, start=2)], axis=0)
    return anyshape.function([x, w, bias], [y, ops.resize(w, sizes=sizes, axes=[1, 2], policy="not_larger")])


def _limited() -> Function:
    """The last size of boxes is 4, so that the limit is 0, and so is the number of those that are kept."""
    boxes, scores = anyshape.input("boxes", "f32[b, n, k]"), anyshape.input("scores", "f32[b, c, n]")
    limit = ops.sub(ops.gather(ops.shape_of(boxes), 2, axis=0), 4)
    return anyshape.function([boxes, scores], ops.non_max_suppression(boxes, scores, limit=limit))


@pytest.mark.parametrize("make", [_grouped_and_resized, _limited])
def test_a_size_that_is_a_number_stays_one(make):
    """A pass knows more, and infers no less of it."""
    before = make()
    after = passes.dyn_to_static(before)
    for old, new in zip(before.results, after.results, strict=True):
        for n, m in zip(old.type.shape, new.type.shape, strict=True):
            assert not isinstance(n, int) or n == m, f"{old.type} became {new.type}"
    assert bounds(before.results[-1].type.shape[-2]) == (0, 0)
