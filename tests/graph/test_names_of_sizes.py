"""No message shows a name that counts what a process has made."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import helper

import anyshape
from anyshape import control, lists, ops
from anyshape.cli.explain import explain
from anyshape.dims import SizeReader, SizeWriter, fresh, symbol
from anyshape.errors import AnyshapeError, ShapeError
from anyshape.graph.origins import Names
from anyshape.onnxruntime import InferenceSession
from anyshape.vm.executable.memory_text import memory_text


def test_sizes_that_stand_alone_nowhere_are_called_by_what_they_were_made_as() -> None:
    x = anyshape.input("x", "f32[?, n]")
    names, first, other = Names(anyshape.function([x], x)), fresh("k"), fresh("k")
    (unknown, _) = x.type.shape or ()
    assert [names[s] for s in (first, other, first, fresh("?"))] == ["k", "k#2", "k", "size"]
    assert names[unknown] == "x.shape[0]" and names[symbol("n")] == "n"


def branches_of_sizes() -> dict[str, Any]:
    """Values whose types have sizes of every kind that nobody named."""
    x, s, u = anyshape.input("x", "f32[n, m]"), anyshape.input("s", "i64[2]"), anyshape.input("u", "f32[?, ?]")
    k, c = anyshape.input("k", "i64[]"), anyshape.input("c", "bool[]")
    (joined,) = control.if_(c, lambda: u, lambda: ops.concat([u, u], axis=0))
    (grown,) = control.loop(k, lambda i, v: [ops.concat([v, v], axis=0)], [u])
    return {
        "x": x, "s": s, "u": u, "k": k, "c": c, "elements": ops.reshape(x, s), "counted": ops.nonzero(x),
        "computed": ops.full(1.0, ops.cast(ops.exp(ops.cast(s, "f32")), "i64")), "a scalar": ops.arange(0, k),
        "joined": joined, "grown": grown, "twice": ops.concat([u, u], axis=0), "a list": lists.of([u, x]),
    }  # fmt: skip


INTERNAL = re.compile(r"\?\d|\w\.\d|_\d+_")


def test_types_print_no_name_that_counts_what_was_made() -> None:
    values = branches_of_sizes()
    printed = {name: str(v.type) for name, v in values.items()}
    assert printed["elements"].startswith("f32[select(s[0] == -1, (m*n) // ")
    expected = {
        "u": "f32[?, ?]", "counted": "i64[2, ?]", "computed": "f32[?, ?]", "a scalar": "i64[max(k[0], 0)]",
        "joined": "f32[?, ?]", "grown": "f32[?, ?]", "twice": "f32[2*?, ?]", "a list": "list[f32[?, ?]]",
    }  # fmt: skip
    assert {name: printed[name] for name in expected} == expected
    for v in values.values():
        for text in (str(v.type), repr(v), repr(v.type)):
            assert not INTERNAL.search(text), text
    assert str(branches_of_sizes()["elements"].type) == printed["elements"], (
        "the same in every process, however much was made before"
    )


def test_dims_print_as_types_do() -> None:
    """`print(x.shape)` and the like: reprs of dims, of elements and of conditions on them, also in the body of a loop."""
    values = branches_of_sizes()
    u, s, k = values["u"], values["s"], values["k"]
    assert (
        repr(u.shape) == "(?, ?)"
        and f"{u.shape[0]} {2 * u.shape[1]!r}" == "? 2*?"
        and repr(s.elements()) == "(s[0], s[1])"
    )
    assert str(values["counted"].shape) == "(2, ?)" and repr(u.shape[0] <= s.elements()[1]).startswith("s[1] >= ?")
    said: list[str] = []

    def body(i: Any, v: Any) -> list[Any]:
        said.append(f"{v.shape} {i.elements()}")
        return [ops.concat([v, v], axis=0)]

    control.loop(k, body, [u])
    for text in (*said, *(repr(v.shape) for v in values.values()), *(repr(v.elements()) for v in values.values())):
        assert not INTERNAL.search(text), text
    with pytest.raises(TypeError, match=r"the dim \? is not a number"):
        bool(u.shape[0])


@pytest.mark.parametrize("name", ["enc/x.1", "input.1", "12", "_0", "_/a", "a?b", "é", "x y", "v_0_"])
def test_elements_of_a_value_of_any_name(name: str) -> None:
    """ONNX lets a value be called anything; so messages and types do not show the symbol that is made of its name."""
    s, u = anyshape.input(name, "i64[2]"), anyshape.input("u", "f32[3, 4]")
    assert (
        repr(s.elements()) == f"({name}[0], {name}[1])" and str(ops.full(1.0, s).type) == f"f32[{name}[0], {name}[1]]"
    )
    reader, written = SizeReader, SizeWriter()
    data = [written(e) for e in s.elements()]
    assert list(map(str, map(reader(written.table), data))) == [f"{name}[0]", f"{name}[1]"]
    for make in (
        lambda: ops.full(1.0, s) + ops.concat([u, u], axis=0),
        lambda: ops.match_shape(ops.full(1.0, s), "f32[a]"),
    ):
        try:
            said = str(anyshape.compile(anyshape.function([s, u], make())).report)
        except AnyshapeError as e:
            said = str(e)
        assert not re.search(r"_[01]_", said.replace(name, "")), said
    with pytest.raises(ShapeError) as e:
        anyshape.compile(anyshape.function([s, u], ops.full(1.0, s) + ops.concat([u, u], axis=0)))(
            np.array([2, 3]), np.ones((3, 4), np.float32)
        )
    assert f"{name}[0] = 2" in str(e.value)


def test_executables_print_names_of_users() -> None:
    values = branches_of_sizes()
    used = [values[k] for k in ("x", "s", "u", "k", "c")]
    exe = anyshape.compile(
        anyshape.function(used, [values["elements"], values["counted"], values["grown"], values["twice"]])
    )
    shown = (
        repr(exe),
        repr(exe.output_types),
        repr(exe.input_types),
        str(exe.report).partition("steps")[0],
        memory_text(exe),
        exe.disassemble(),
    )
    for text in (*shown, *(repr(c) for n in exe.function.all_nodes() for c in n.checks)):
        assert not INTERNAL.search(text), text


def test_one_function_has_one_name_for_each_size() -> None:
    """A size has one name in a function's text, in what explains it, and as data: `?0` is the same unknown wherever it is."""
    *inputs, elements, counted, _, range_, joined, _, twice, _ = branches_of_sizes().values()
    exe = anyshape.compile(anyshape.function(inputs, [elements, counted, range_, joined, twice]))
    answer = explain(exe)
    assert answer.data["inputs"]["u"] == "f32[?0, ?1]" and "%u: f32[?0, ?1]" in str(exe.function)
    assert list(answer.data["outputs"].values())[1:] == [
        "i64[2, ?2]",
        "i64[max(k[0], 0)]",
        "f32[?3, ?1]",
        "f32[2*?0, ?1]",
    ]
    assert answer.data["dims"]["?0"]["axes"] == ["u[0]"]
    explained = answer.data["data_dependent"]
    assert (
        explained["s[1]"] == "element 1 of the input s"
        and explained["?2"] == "a size of nonzero, which its data decides"
    )
    said = re.findall(r"\?\d+", str(answer.text.partition("symbolic dims:")[0]))
    assert set(said) <= {*answer.data["dims"], *explained}
    assert not re.search(r"\w_\d+_\.\d|\b[a-z]+\.\d+\b(?! ms)", answer.text), answer.text


def test_what_is_required_is_reported_in_the_words_of_the_types() -> None:
    x, m, lengths = anyshape.input("x", "f32[n]"), anyshape.input("m", "bool[n]"), anyshape.input("l", "i64[b]")
    kept, total, first = x[m], ops.sum(lengths), anyshape.input("s", "i64[2]")
    ops.require(kept.shape[0] <= 3, "few")
    ops.require(total <= kept.shape[0], "as many as lengths say")
    ops.require(ops.static.slice(first, starts=(0,), ends=(1,)).reshape() <= x.shape[0], "an element")

    def body(i: Any, sum_: Any) -> list[Any]:
        selected = x[x > ops.cast(i, to="f32")]
        ops.require(selected.shape[0] <= 3, "three in each iteration")
        return [sum_ + selected.sum()]

    loop = control.loop(total, body, [np.float32(0)])
    answer = explain(anyshape.compile(anyshape.function([x, m, lengths, first], [kept + 1.0, *loop])))
    assert answer.data["outputs"]["output0"] == "f32[?0]"
    assert sorted(answer.data["required"]) == [
        "?0 <= 3  # require: few",
        "?0 >= sum  # require: as many as lengths say",
        "?1 <= 3  # require: three in each iteration",
        "n >= s[0]  # require: an element",
    ]


def test_messages_name_the_place_of_a_size_or_none() -> None:
    values = branches_of_sizes()
    u, counted, joined = values["u"], values["counted"], values["joined"]
    f = control.function("f", {"a": "f32[?, 4]", "b": "f32[n]"}, ["f32[n]"])
    wrong: list[Callable[[], Any]] = [
        lambda: ops.match_shape(counted, "f32[a]"),
        lambda: ops.match_shape(joined, "f32[a]"),
        lambda: control.call(f, [counted, u]),
        lambda: control.if_(values["c"], lambda: ops.nonzero(u), lambda: ops.cast(ops.nonzero(u), "f32")),
        lambda: control.loop(values["k"], lambda i, v: [ops.cast(ops.concat([v, v], axis=0), "f64")], [joined]),
        lambda: ops.concat([ops.reshape(joined, (3, 4)), ops.reshape(u, (4, 4))], axis=1),
        lambda: bool(counted),
        lambda: anyshape.compile(anyshape.function([u], ops.exp(u)), dims={"rows": 3}),
    ]
    for make in wrong:
        with pytest.raises(AnyshapeError) as e:
            make()
        assert not INTERNAL.search(str(e.value)), str(e.value)


def test_an_entry_check_names_the_dim_that_another_has_to_equal() -> None:
    f = anyshape.parse("function main(%x: f32[?0, 2*?0], %y: f32[?0]) {\n  return a=%x, b=%y\n}")
    run = anyshape.compile(f)
    with pytest.raises(ShapeError, match=r"input y: dim 0 must be x\.shape\[0\] = 2, got 3"):
        run(np.ones((2, 4), np.float32), np.ones(3, np.float32))
    with pytest.raises(ShapeError, match=r"input x: dim 1 must be 2\*x\.shape\[0\] = 4, got 3"):
        run(np.ones((2, 3), np.float32), np.ones(2, np.float32))


def test_a_session_has_no_names_for_sizes_without_one() -> None:
    x, k = helper.make_tensor_value_info("x", 1, ["n", None]), helper.make_tensor_value_info("k", 7, [1])
    nodes = [
        helper.make_node("TopK", ["x", "k"], ["v", "i"], axis=0),
        helper.make_node("Concat", ["x", "x"], ["y"], axis=1),
    ]
    outputs = [helper.make_tensor_value_info(name, t, None) for name, t in (("v", 1), ("y", 1))]
    g = helper.make_graph(nodes, "g", [x, k], outputs)
    session = InferenceSession(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))
    assert [o.shape for o in (*session.get_inputs(), *session.get_outputs())] == [
        ["n", None],
        [1],
        [None, None],
        ["n", None],
    ]
