"""Lists as values: what their ops give, in sight and at run time; types, text, errors; in loops; memory; as arguments and results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, lists, ops
from anyshape.errors import AnyshapeError, ArgumentError, DtypeError, ShapeError, UnsupportedError
from anyshape.graph.verify import verify
from anyshape.types import parse_type
from anyshape.vm.run import available
from anyshape.vm.run.heap import Heap
from tests.control.comparing import same
from tests.in_threads import in_threads
from tests.resident import LINUX, added

X = np.arange(8, dtype=np.float32).reshape(2, 4)
Y = np.ones((3, 4), np.float32)


def xs() -> Any:
    return anyshape.input("xs", "list[f32[?, 4]]")


def test_types_and_text() -> None:
    x, y, i = anyshape.input("x", "f32[n, 4]"), anyshape.input("y", "f32[m, 4]"), anyshape.input("i", "i64[]")
    parts = lists.insert(lists.of([x, y]), x, i)
    assert str(parts.type) == "list[f32[?, 4]]"
    assert str(lists.of([x, x]).type) == "list[f32[n, 4]]"
    assert str(lists.of([lists.of([x]), lists.of([y])]).type) == "list[list[f32[?, 4]]]"
    assert str(lists.of([x, anyshape.input("z", "f32[]")]).type) == "list[f32[...]]"
    assert str(lists.empty("f32[...]").type) == "list[f32[none]]"
    assert str(lists.optional(x).type) == "optional[f32[n, 4]]"
    f = anyshape.function([x, y, i], [lists.at(parts, 0), lists.concat(parts), lists.length(parts), parts])
    verify(f)
    assert str(anyshape.parse(str(f))) == str(f)
    for text in ("list[f32[?, 4]]", "list[list[i64[n]]]", "optional[f32[...]]", "list[bool[none]]"):
        assert str(parse_type(text)) == text


def test_every_op(options: dict[str, Any]) -> None:
    items, i, x = xs(), anyshape.input("i", "i64[]"), anyshape.input("x", "f32[n, 4]")
    f = anyshape.function(
        [items, i, x],
        [lists.at(items, i), lists.insert(items, x, i), lists.append(items, x), lists.erase(items, i), lists.erase(items),
         lists.length(items), lists.concat(items), lists.concat(lists.of([lists.at(items, i), lists.at(items, i)]), 1, True)],
    )  # fmt: skip
    exe = anyshape.compile(f, **options)
    Z = X * 2
    for held in ([X], [X, Y], [Y, X, Y, X]):
        for k in {0, len(held) - 1, -1, -len(held)}:
            got = exe(held, k, Z)
            inserted, erased = list(held), list(held)
            inserted.insert(k, Z)
            del erased[k]
            expected = [held[k], inserted, [*held, Z], erased, held[:-1], np.array(len(held)), np.concatenate(held)]
            same(list(got), [*expected, np.stack([held[k]] * 2, 1)])


def test_a_position_outside_is_an_error_that_says_both(options: dict[str, Any]) -> None:
    items, i = xs(), anyshape.input("i", "i64[]")
    exe = anyshape.compile(anyshape.function([items, i], lists.at(items, i)), **options)
    for k in (2, -3, 2**62):
        with pytest.raises(ShapeError, match=rf"list_at: position {k} is outside of a list of 2"):
            exe([X, Y], k)
    same(exe([X, Y], 1), Y)
    last = anyshape.compile(anyshape.function([items], lists.erase(items)), **options)
    with pytest.raises(ShapeError, match="list_erase: the list is empty"):
        last([])
    whole = anyshape.compile(anyshape.function([items], lists.concat(items)), **options)
    with pytest.raises(ShapeError, match="concat: xs needs at least one tensor"):
        whole([])
    wide = anyshape.compile(anyshape.function([items], lists.concat(items, axis=1)), **options)
    with pytest.raises(ShapeError, match=r"concat: o of xs\[1\], item 0: expected 2, got 3"):
        wide([X, Y])
    same(wide([X, X]), np.concatenate([X, X], 1))


def test_what_is_known_to_be_in_a_list_needs_none() -> None:
    x, y = anyshape.input("x", "f32[n, 4]"), anyshape.input("y", "f32[m, 4]")
    parts = lists.insert(lists.erase(lists.of([x, y, x]), 0), x, -1)
    f = anyshape.function([x, y], [lists.at(parts, 0), lists.concat(parts), lists.length(parts)])
    g = anyshape.passes.optimise(f)
    assert not [n for n in g.nodes if n.op.structure is not None]
    same(list(anyshape.compile(f)(X, Y)), [Y, np.concatenate([Y, X, X]), np.array(3)])


def test_errors_when_building() -> None:
    x, z = anyshape.input("x", "f32[n, 4]"), anyshape.input("z", "i64[2]")
    both = r"is list\[f32\[n, 4\]\] {} and list\[i64\[2\]\] {}; elements of a list have one dtype"
    with pytest.raises(DtypeError, match=both.format("by element 0", "by element 2")):
        lists.of([x, x, z])
    with pytest.raises(DtypeError, match=both.format("before", "by what is inserted")):
        lists.append(lists.of([x]), z)
    with pytest.raises(ShapeError, match="its element type is not known"):
        lists.of([])
    with pytest.raises(ShapeError, match="list_at: the list is empty; nothing was put into it"):
        lists.at(lists.empty("f32[...]"), 0)
    with pytest.raises(DtypeError, match="its first operand must be a list, got f32"):
        lists.length(x)
    with pytest.raises(DtypeError, match="a position must be an integer"):
        lists.at(lists.of([x]), x)
    with pytest.raises(DtypeError, match="list"):
        ops.add(lists.of([x]), x)
    with pytest.raises(ShapeError, match="concat: axis 2 is out of range for rank 2"):
        lists.concat(lists.of([x]), axis=2)
    with pytest.raises(DtypeError, match="only tensors can be stacked"):
        control.loop(3, lambda i: [lists.of([x])], [], collects=1)
    with pytest.raises(
        DtypeError, match=r"is list\[f32\[n, 4\]\] before and list\[list\[f32\[n, 4\]\]\] after an iteration"
    ):
        control.loop(3, lambda i, a: [lists.of([lists.of([x])])], [lists.of([x])])


def test_arguments_that_do_not_fit(options: dict[str, Any]) -> None:
    exe = anyshape.compile(_lengths(), **options)
    assert exe([]) == 0 and exe([X, Y]) == 2 and exe((X.tolist(),)) == 1 and exe(xs=[X[:, ::-1]]) == 1
    for wrong, why in (
        (X, "must be a list of arrays"),
        (None, "must be a list of arrays"),
        ({"a": X}, "must be a list"),
    ):
        with pytest.raises(ArgumentError, match=why):
            exe(wrong)
    with pytest.raises(DtypeError, match=r"input xs\[1\] must be f32, got i64"):
        exe([X, np.ones((2, 4), np.int64)])
    with pytest.raises(ShapeError, match=r"input xs\[0\] must be f32\[\?, 4\], of rank 2; got rank 1"):
        exe([X[0]])
    with pytest.raises(ShapeError, match="input xs: dim 1 of an element must be 4, got 3"):
        exe([X, X[:, :3]])


def _lengths() -> anyshape.Function:
    items = xs()
    return anyshape.function([items], ops.sub(lists.length(lists.append(items, Y)), 1))


def test_a_dim_that_all_elements_share(options: dict[str, Any]) -> None:
    elements, x = anyshape.input("elements", "list[f32[?, n]]"), anyshape.input("x", "f32[n]")
    exe = anyshape.compile(anyshape.function([elements, x], ops.add(lists.concat(elements), x)), **options)
    same(exe([X, Y], X[0]), np.concatenate([X, Y]) + X[0])
    with pytest.raises(ShapeError, match="dim 1 of an element must be n = 3, got 4"):
        exe([X], X[0, :3])


def test_lists_in_lists(options: dict[str, Any]) -> None:
    nested, x = anyshape.input("nested", "list[list[f32[?, 4]]]"), anyshape.input("x", "f32[n, 4]")
    inner = lists.append(lists.at(nested, 0), x)
    exe = anyshape.compile(
        anyshape.function([nested, x], [inner, lists.append(nested, inner), lists.erase(nested), lists.length(nested)]),
        **options,
    )
    held = [[X, Y], [], [Y]]
    same(list(exe(held, X)), [[X, Y, X], [*held, [X, Y, X]], held[:-1], np.array(3)])


def test_optionals(options: dict[str, Any]) -> None:
    optional = anyshape.input("optional", "optional[f32[?, 4]]")
    (y,) = control.if_(lists.has_element(optional), lambda: lists.element(optional), lambda: Y)
    f = anyshape.function(
        [optional], [y, lists.has_element(optional), lists.optional(y), lists.optional(element="f32[?]")]
    )
    exe = anyshape.compile(f, **options)
    y, has, again, nothing = exe(X)
    same(y, X)
    same(again, X)
    assert has and nothing is None
    y, has, again, nothing = exe(None)
    same(y, Y)
    same(again, Y)
    assert not has and nothing is None


def kept_last(limit: int) -> anyshape.Function:
    """Carries the last `limit` rows that turns made: a list that is appended to and erased from in branches."""
    x, n = anyshape.input("x", "f32[4]"), anyshape.input("k", "i64[]")

    def iteration(i: Any, rows: Any) -> list[Any]:
        longer = lists.append(rows, ops.add(x, ops.cast(i, "f32")))
        full = ops.greater(lists.length(longer), limit)
        return [control.if_(full, lambda: lists.erase(longer, 0), lambda: longer)[0]]

    (rows,) = control.loop(n, iteration, [lists.empty("f32[...]")])
    return anyshape.function([x, n], [rows, lists.length(rows)])


def test_a_window_of_rows(options: dict[str, Any]) -> None:
    exe = anyshape.compile(kept_last(3), **options)
    for n in (0, 1, 3, 7):
        rows, count = exe(X[0], np.array(n))
        same(rows, [X[0] + np.float32(k) for k in range(max(n - 3, 0), n)])
        assert count == len(rows)


def halved_again_and_again() -> anyshape.Executable:
    x = anyshape.input("x", "f32[n]")
    k = anyshape.input("k", "i64[]")
    (rows,) = control.loop(
        k, lambda i, rows: [lists.erase(lists.append(rows, ops.mul(lists.at(rows, 0), 0.5)), 0)], [lists.of([x, x])]
    )
    return anyshape.compile(anyshape.function([x, k], lists.at(rows, 0)))


@pytest.mark.skipif(not LINUX, reason="tells resident memory by Linux's own file")
def test_twenty_thousand_iterations_do_not_grow_memory() -> None:
    before = """
import numpy as np
from tests.control.test_lists import halved_again_and_again
exe, wide = halved_again_and_again(), np.ones(1 << 12, np.float32)
exe(wide, np.array(100))
"""
    assert added(before, "exe(wide, np.array(20_000))") < 4 << 20  # all elements would be 320 MB


def test_appending_copies_no_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that nobody else holds is not copied in a branch of a loop either: seen in the Python loop, which runs the same program as the
    native one."""
    x, k = anyshape.input("x", "f32[4]"), anyshape.input("k", "i64[]")

    def iteration(i: Any, rows: Any) -> list[Any]:
        return [control.if_(ops.greater_equal(i, 0), lambda: lists.append(rows, x), lambda: rows)[0]]

    (rows,) = control.loop(k, iteration, [lists.empty("f32[...]")])
    exe = anyshape.compile(anyshape.function([x, k], lists.length(rows)), loop="python")
    asked = []
    plain = Heap.own

    def own(heap: Heap, handle: int) -> int:
        copy = plain(heap, handle)
        asked.append(copy == handle)
        return copy

    monkeypatch.setattr(Heap, "own", own)
    for n in (10, 300):
        asked.clear()
        assert exe(X[0], np.array(n)) == n
        assert len(asked) == n and asked.count(False) == 0


def test_an_error_inside_leaves_nothing(options: dict[str, Any]) -> None:
    x, k = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")
    (rows,) = control.loop(k, lambda i, rows: [lists.append(rows, lists.at(rows, ops.sub(i, 3)))], [lists.of([x])])
    exe = anyshape.compile(anyshape.function([x, k], rows), **options)
    for _ in range(3):
        with pytest.raises(ShapeError, match="position -3 is outside of a list of 1"):
            exe(X[0], np.array(2))
    assert exe(X[0], np.array(0))[0].shape == (4,)


@pytest.mark.parametrize("sizes", [None, 2, [1, 3, 1]])
@pytest.mark.parametrize("known", [True, False])
def test_split(options: dict[str, Any], sizes: Any, known: bool) -> None:
    x, s = anyshape.input("x", "f32[5, m]" if known else "f32[n, m]"), anyshape.input("s", "i64[]")
    operand = sizes
    params = [x]
    if not known and isinstance(sizes, list):
        s = anyshape.input("s", "i64[k]")
    if not known and sizes is not None:
        operand, params = s, [x, s]
    f = anyshape.function(params, [lists.split(x, operand), lists.split(x, axis=1, keepdims=False)])
    exe = anyshape.compile(f, **options)
    data = np.arange(15, dtype=np.float32).reshape(5, 3)
    at = {None: [1, 2, 3, 4], 2: [2, 4]}.get(sizes if not isinstance(sizes, list) else "", [1, 4])
    got, rows = exe(*[data, np.array(sizes)][: len(params)])
    same(got, [np.ascontiguousarray(p) for p in np.split(data, at)])
    same(rows, [data[:, k] for k in range(3)])
    if not known and sizes == 2:
        with pytest.raises(ShapeError, match="a size must be at least 1"):
            exe(data, np.array(0))
    if not known and isinstance(sizes, list):
        with pytest.raises(ShapeError):
            exe(data, np.array([1, 1]))


def test_many_threads() -> None:
    exe = anyshape.compile(kept_last(5))
    wrong: list[int] = []

    def work(n: int) -> None:
        for _ in range(20):
            rows, _ = exe(X[0], np.array(n))
            if rows[-1][0] != X[0, 0] + n - 1:
                wrong.append(n)

    in_threads(work, range(100, 108))
    assert not wrong


def test_saved_and_loaded(tmp_path: Path) -> None:
    items = xs()
    exe = anyshape.compile(anyshape.function([items], [lists.concat(items), lists.append(items, Y)]))
    exe.save(tmp_path / "m")
    again = anyshape.load(tmp_path / "m")
    same(list(again([X, Y])), list(exe([X, Y])))
    assert str(again.input_types[0]) == "list[f32[?, 4]]"
    with pytest.raises(AnyshapeError):
        again([Y[:, :2]])


def test_an_empty_dim_takes_the_general_program(options: dict[str, Any]) -> None:
    items, x = xs(), anyshape.input("x", "f32[n, 4]")
    exe = anyshape.compile(anyshape.function([items, x], lists.append(items, ops.exp(x))), **options)
    same(exe([X[:0], Y], X[:0]), [X[:0], Y, X[:0]])


def test_names_of_dims_that_only_elements_have_are_refused() -> None:
    elements = anyshape.input("elements", "list[f32[n]]")
    with pytest.raises(
        UnsupportedError, match=r"nothing defines the dim n: .*elements: list\[f32\[n\]\] only mentions it"
    ):
        anyshape.compile(anyshape.function([elements], lists.concat(elements)))


def test_elements_of_several_ranks(options: dict[str, Any]) -> None:
    elements, i = anyshape.input("elements", "list[f32[...]]"), anyshape.input("i", "i64[]")
    exe = anyshape.compile(anyshape.function([elements, i], ops.exp(lists.at(elements, i))), **options)
    mixed = [X, X[0], X[0, :1].reshape(())]
    for k in (0, 1, 2, -2):
        same(exe(mixed, np.array(k)), exe([mixed[k]], np.array(0)))
    whole = anyshape.compile(anyshape.function([elements], lists.concat(elements)), **options)
    same(whole([X, Y]), np.concatenate([X, Y]))
    with pytest.raises(ShapeError, match=r"concat: i of xs\[1\]: expected \[elements_0.shape\[1\]\], got \[\]"):
        whole(mixed[:2])


def test_functions_are_no_elements() -> None:
    f = control.define(control.function("f", {"x": "f32[n]"}, ["f32[n]"]), lambda x: x)
    with pytest.raises(DtypeError, match="elements of a list must be tensors or lists, got function"):
        lists.of([control.reference(f)])
    with pytest.raises(UnsupportedError, match="a function cannot be a result of a program"):
        anyshape.compile(anyshape.function([xs()], control.reference(f)))


def test_an_op_of_tensors_goes_through_a_list(options: dict[str, Any]) -> None:
    """An op reads a list in a loop, beside what the loop makes of it, and where only its size is wanted."""
    first, k = xs(), anyshape.input("k", "i64[]")

    def iteration(i: Any, rows: Any, whole: Any) -> list[Any]:
        longer = lists.append(rows, ops.mul(ops.concat(rows), ops.cast(i, "f32")))
        return [longer, ops.add(ops.sum(ops.concat(longer), axes=[0]), whole)]

    rows, whole = control.loop(k, iteration, [first, np.zeros(4, np.float32)])
    exe = anyshape.compile(
        anyshape.function([first, k], [whole, ops.shape_of(ops.concat(rows)), ops.stack(rows, 2)]), **options
    )
    held = [X, Y[:2]]
    expected, total = list(held), np.zeros(4, np.float32)
    for i in range(1):
        expected.append(np.concatenate(expected) * np.float32(i))
        total = total + np.concatenate(expected).sum(0)
    with pytest.raises(ShapeError, match=r"stack: o of xs\[2\], item 0: expected 2, got 4"):
        exe(held, np.array(1))
    got = exe(held, np.array(0))
    same(list(got), [np.zeros(4, np.float32), np.array([4, 4]), np.stack(held, 2)])
    exe = anyshape.compile(anyshape.function([first, k], [whole, ops.shape_of(ops.concat(rows))]), **options)
    same(list(exe(held, np.array(1))), [total, np.array([8, 4])])


def test_a_list_does_not_take_memory_that_is_not_there(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system gives more memory than it has in pieces, and ends the process that uses it."""
    x, k = anyshape.input("x", "f32[n]"), anyshape.input("k", "i64[]")
    (rows,) = control.loop(k, lambda i, rows: [lists.append(rows, x)], [lists.empty("f32[...]")])
    exe = anyshape.compile(anyshape.function([x, k], lists.length(rows)), **options)
    wide = np.ones(1 << 20, np.float32)
    there = 1 << 40
    monkeypatch.setattr(available, "available_memory", lambda: there)
    assert exe(wide, np.array(40)) == 40
    there = 0
    with pytest.raises(AnyshapeError, match="bytes for an element of a list"):
        exe(wide, np.array(2**62))
    there = 1 << 40
    assert exe(wide, np.array(40)) == 40
