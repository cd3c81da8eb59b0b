"""`anyshape.shapes`: what it says of a model is what runs of the model do."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import anyshape
from anyshape.cli.main import main
from anyshape.dims import evaluate
from anyshape.errors import AnyshapeError, ArgumentError, DtypeError, ModelError, ShapeError
from anyshape.frontends.symbolic_shapes import Shapes
from anyshape.frontends.symbolic_shapes.annotated import annotate
from anyshape.frontends.symbolic_shapes.search import Outcome
from tests.frontends.models import call, chain, model, node, tensor
from tests.shapes.conditional_models import I64, MODELS, compiled, feed_of, inferred, refusal

LARGE = np.ones((40, 40), np.float32)
DECIDED = [name for name in MODELS if name not in ("branches", "counted")]
"""Models that sizes and elements of inputs alone decide"""


def points(shapes: Shapes) -> list[dict[str, int]]:
    """Sizes from 0 on, more of them of few dims; elements from -1. Some 150 points."""
    most = {1: 12, 2: 7}.get(len(shapes.dims), 4)
    ranges = [range(-1 if d.least is None else 0, most) for d in shapes.dims.values()]
    every = list(itertools.product(*ranges))
    return [dict(zip(shapes.dims, p)) for p in every[:: max(1, len(every) // 150)]]


@pytest.mark.parametrize("name", DECIDED)
def test_conditions_say_where_the_model_runs(name: str) -> None:
    """A run fails where a condition does not hold, by the first of them, and nowhere else."""
    shapes, ran = inferred(name), set[bool]()
    for sizes in points(shapes):
        numbers = {d.symbol: sizes[n] for n, d in shapes.dims.items()}
        failing = [c for c in shapes.conditions if not evaluate(c.cond, numbers)]
        said = refusal(name, feed_of(shapes, sizes))
        assert bool(said) == bool(failing), (sizes, said, list(map(str, failing)))
        assert not failing or failing[0].node in said, (sizes, said, str(failing[0]))
        ran.add(not said)
    assert ran == {True, False}


@pytest.mark.parametrize("name", DECIDED)
def test_shapes_are_those_of_a_run(name: str) -> None:
    shapes, ran = inferred(name), 0
    for sizes in points(shapes):
        feed = feed_of(shapes, sizes)
        if refusal(name, feed):
            continue
        numbers = {d.symbol: sizes[n] for n, d in shapes.dims.items()}
        for output, a in zip(shapes.outputs, compiled(name).run(feed), strict=True):
            t = shapes.values[output].type
            assert t is not None and t.shape is not None
            assert tuple(evaluate(n, numbers) for n in t.shape) == a.shape, (output, sizes)
        ran += 1
    assert ran


@pytest.mark.parametrize("name", DECIDED)
def test_the_smallest_failure_fails_by_that_condition(name: str) -> None:
    shapes = inferred(name)
    tripped = 0
    for k, c in enumerate(shapes.conditions):
        answer = shapes.smallest_failure(k)
        assert answer.smallest == shapes.smallest_failure(c).smallest
        if not answer:
            continue
        feed = feed_of(shapes, answer.smallest)
        assert c.node in refusal(name, feed)
        assert {n: a.shape for n, a in feed.items()} == answer.inputs
        tripped += 1
    assert tripped


@pytest.mark.parametrize(("name", "asked", "smallest"), [
    ("halves", {"y": (4, 3)}, {"n": 4, "m": 6}), ("cache", {"y": (None, 7, None)}, {"b": 0, "past": 0, "seq": 7, "total": 1}),
    ("windows", {"y": (1, 1, 5)}, {"n": 16}), ("computed", {"y": (3, 2)}, {"n": 0, "m": 3, "k": 0}),
    ("asked", {"y": (3, 2)}, {"n": 1, "s[0]": 3, "s[1]": 2}), ("split", {"output": (3,)}, None), ("split", {"y": (2,)}, {"n": 5, "m": 1}),
    ("cache", {"all": ("b", "seq + 3", 2)}, None),
])  # fmt: skip
def test_what_inputs_give_a_shape(name: str, asked: dict[str, Any], smallest: dict[str, int] | None) -> None:
    shapes = inferred(name)
    if "output" in asked:
        with pytest.raises(ArgumentError, match="has no value 'output'; the outputs are y, z"):
            shapes.solve(**asked)
        return
    answer = shapes.solve(**asked)
    assert answer and not refusal(name, feed_of(shapes, answer.smallest))
    if smallest is not None:
        assert sum(map(abs, answer.smallest.values())) == sum(map(abs, smallest.values())), answer
        (y,) = compiled(name).run(feed_of(shapes, answer.smallest))[:1]
        assert all(w in (n, None) for n, w in zip(y.shape, asked["y"], strict=True))
    else:
        assert answer.dims["past"] == 3


def test_conditions_within_a_branch_bind_only_runs_of_it() -> None:
    shapes = inferred("branches")
    (inside,) = [c for c in shapes.conditions if c.is_inside]
    assert set(inside.text.split(" or ")) == {"m == n", "m == 1", "n == 1"} and "(if that part runs)" in str(shapes)
    answer = shapes.smallest_failure(inside)
    for c in (True, False):
        assert bool(refusal("branches", feed_of(shapes, answer.smallest, c=c))) is c
    assert shapes.solve(x=(2,), w=(3,)), "a branch that is not taken refuses nothing"


def test_sizes_that_data_decides() -> None:
    shapes = inferred("counted")
    (size,) = shapes.data.values()
    assert size.name == "p.shape[1]" and "NonZero" in size.cause
    (condition,) = shapes.conditions
    answer = shapes.smallest_failure(condition)
    x = np.zeros(answer.smallest.get("n", 4), np.float32)
    x[: answer.data["p.shape[1]"]] = 1
    assert condition.node in refusal("counted", feed_of(shapes, answer.smallest, x=x))
    assert shapes.solve(i=(5,)).data == {"p.shape[1]": 5} and shapes.solve(i=(5,), x=(5,))
    never = shapes.solve(i=(5,), x=(4,))
    assert never.outcome is Outcome.IMPOSSIBLE, "more elements are not 0 than there are"


def test_what_is_not_supported_has_the_type_that_onnx_infers() -> None:
    nodes = [
        node("Neg", "x", "r"),
        node("GridSample", "r g", "d", "whole"),
        call("Odd", "d", "o"),
        node("Add", "d d", "y"),
    ]
    inputs = [tensor("x", ["b", 3, "h", "w"], I64), tensor("g", ["b", 5, 7, 2])]
    shapes = anyshape.shapes(model(nodes, inputs, "o y", domains=["acme"]))
    assert str(shapes.values["r"]) == "i64[b, 3, h, w]" and shapes.values["o"].type is None
    assert shapes.unsupported == {"d": "GridSample 'whole'", "o": "Odd"}
    assert str(shapes.values["d"]) == "i64[d.shape[0], 3, 5, 7]" == str(shapes.values["y"])
    assert "known from ONNX's own inference alone" in str(shapes)
    with pytest.raises(ArgumentError, match=r"o is \?, whose dims are not known"):
        shapes.solve(o=(1,))


def test_inputs_and_constants_of_unsupported_element_types() -> None:
    constant = onnx.helper.make_tensor("w", onnx.TensorProto.COMPLEX64, [1], [1 + 2j])
    m = model(
        [node("Mul", "x w", "y"), node("Relu", "u", "v")],
        [tensor("x", ["n"], onnx.TensorProto.COMPLEX64), tensor("u", ["n"])],
        "y v",
    )
    m.graph.initializer.append(constant)
    shapes = anyshape.shapes(m)
    assert shapes.unsupported.keys() == {"w", "x", "y"} and shapes.unsupported["w"] == "its element type"
    assert str(shapes.values["v"]) == "f32[n]" and "Mul" in shapes.unsupported["y"]


def test_damaged_models_are_refused_by_errors_of_ours() -> None:
    pick, refused = random.Random(3), 0
    for make in MODELS.values():
        data = make().SerializeToString()
        for _ in range(25):
            damaged = bytearray(data)
            for _ in range(pick.randrange(1, 4)):
                damaged[pick.randrange(len(damaged))] ^= 1 << pick.randrange(8)
            try:
                str(anyshape.shapes(bytes(damaged)))
            except AnyshapeError:
                refused += 1
    assert 20 < refused < 200


def test_types_of_all_kinds() -> None:
    nodes = [
        node("SplitToSequence", "x", "list", axis=0), node("Identity", "s", "t"), node("ReduceSum", "x axes", "sum"),
        node("Relu", "u", "v"), node("Shape", "x", "dims"), node("Mul", "dims two", "doubled"), node("Neg", "unread", "dead"),
    ]  # fmt: skip
    inputs = [
        tensor("x", ["n", None]), tensor("s", ["k"], onnx.TensorProto.STRING), tensor("axes", ["a"], I64), tensor("u", None),
        tensor("unread", ["z"]),
    ]  # fmt: skip
    shapes = anyshape.shapes(model(nodes, inputs, "list t sum v doubled", {"two": np.array([2])}))
    said = {name: str(t) for name, t in shapes.values.items()}
    assert said["t"] == "string[k]" and said["v"] == "f32[...]" and said["list"] == "list[f32[1, x.shape[1]]]"
    assert said["doubled"] == "i64[2] = [2*n, 2*x.shape[1]]" and said["x"] == "f32[n, x.shape[1]]"
    assert "dead" not in shapes.values and shapes.dims["x.shape[1]"].places == ("x.shape[1]",)
    with pytest.raises(ArgumentError, match=r"v is f32\[\.\.\.\], whose dims are not known"):
        shapes.solve(v=(1,))


def test_names_that_sizes_share() -> None:
    """An unnamed dim may be called as a named one is spelled; sizes stay apart."""
    shapes = anyshape.shapes(model([node("Add", "x y", "z")], [tensor("x", [None]), tensor("y", ["x.shape[0]"])], "z"))
    assert len(shapes.dims) == 2 and len({d.symbol for d in shapes.dims.values()}) == 2
    assert shapes.solve(x=(3,), y=(3,)) and not shapes.solve(x=(3,), y=(4,))


def test_dims_bind_and_bound() -> None:
    shapes = anyshape.shapes(chain(), {"batch": (2, 6)})
    assert (shapes.dims["batch"].least, shapes.dims["batch"].most) == (2, 6)
    assert shapes.solve(y=(7, None)).outcome is Outcome.IMPOSSIBLE and shapes.solve(output=(6, 4)).dims == {"batch": 6}
    assert str(anyshape.shapes(chain(), {"batch": 3}).values["y"]) == "f32[3, 4]"


def test_a_default_of_an_input_is_a_constant_as_it_is_to_compile() -> None:
    m = model([node("Reshape", "x s", "y")], [tensor("x", ["n"]), tensor("s", [2], I64)], "y", {"s": np.array([-1, 2])})
    m.ir_version = 8
    assert str(anyshape.shapes(m).values["y"]) == "f32[n // 2, 2]"


def test_a_model_that_fails_for_all_inputs_is_refused() -> None:
    nodes = [node("Relu", "x", "r"), node("Add", "r w", "y", "sum")]
    with pytest.raises(ShapeError, match="sum"):
        anyshape.shapes(model(nodes, [tensor("x", ["n", 3])], "y", {"w": np.ones(4, np.float32)}))
    with pytest.raises(DtypeError, match="sum"):
        anyshape.shapes(model(nodes, [tensor("x", ["n", 3])], "y", {"w": np.ones(3, np.int64)}))
    with pytest.raises(ModelError):
        anyshape.shapes(b"not a model")


REFUSED: list[tuple[Callable[[Shapes], object], str]] = [
    (lambda s: s.solve(), "the shape of at least one value"), (lambda s: s.solve(z=(1,)), "has no value 'z'; the outputs are y"),
    (lambda s: s.solve(alll=(1, 2, 3)), "did you mean 'all'?"), (lambda s: s.solve(y=(1, 2)), r"of 3 dims, got tuple \(1, 2\)"),
    (lambda s: s.solve(y=(1, -2, 2)), "must be a size, None or an expression"), (lambda s: s.solve(y=(1, True, 2)), "must be a size"),
    (lambda s: s.solve(y=(1, "sek", 2)), "unknown symbol 'sek'; did you mean 'seq'"), (lambda s: s.solve(y="bxy"), "of 3 dims"),
    (lambda s: s.solve(y=(1, "b ==", 2)), "a dim of y"), (lambda s: s.solve(y=(1, 1 << 63, 2)), "must be a size"),
    (lambda s: s.solve(y=(1, 1, 2), up_to=-1), "up_to must be"), (lambda s: s.smallest_failure(9), "numbered from 0, got int 9"),
    (lambda s: s.smallest_failure(-1), "numbered from 0"), (lambda s: s.smallest_failure(inferred("split").conditions[0]), "numbered"),
]  # fmt: skip


@pytest.mark.parametrize(("ask", "said"), REFUSED)
def test_questions_that_have_no_meaning(ask: Callable[[Shapes], object], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        ask(inferred("cache"))


def test_the_text_teaches() -> None:
    shapes = inferred("cache")
    said = str(shapes)
    for part in (
        "past   past.shape[1]; at least 0", "all  f32[b, past + seq, 2]", "valid if (shapes.conditions):", "[0] ", "Add 'y': ",
        "shapes.solve({'y': (None, None, 2)})", "shapes.smallest_failure(0)",
    ):  # fmt: skip
        assert part in said, said
    assert repr(shapes).startswith("<Shapes of model: 5 values over past, ") or "print it" in repr(shapes)
    assert "no sizes (proved for all sizes)" in str(shapes.solve(past=(None, 1, 3)))
    assert "the least sum with dims up to 20, after" in str(inferred("windows").solve(y=(1, 1, 5), up_to=20))
    assert "not proved: none with dims up to 3" in str(inferred("windows").solve(y=(1, 1, 5), up_to=3))
    assert "valid for all sizes" in str(anyshape.shapes(chain()))


def test_a_model_with_its_shapes_written_in(tmp_path: Path) -> None:
    """Nothing else changes, constants of another file among it; ONNX reads what is written."""
    m = model(
        [node("MatMul", "x w", "a"), node("Concat", "a a", "y", axis=0)], [tensor("x", ["n", 40])], "y", {"w": LARGE}
    )
    m.ir_version = 10
    onnx.save_model(
        onnx.ModelProto.FromString(m.SerializeToString()),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )
    for source in (m, tmp_path / "m.onnx"):
        new, shapes = annotate(source)
        onnx.checker.check_model(new, full_check=True)
        assert {
            i.name: [d.dim_param or d.dim_value for d in i.type.tensor_type.shape.dim] for i in new.graph.value_info
        } == {"a": ["n", 40]}
        assert [d.dim_param or d.dim_value for d in new.graph.output[0].type.tensor_type.shape.dim] == ["2*n", 40]
        assert list(new.graph.node) == list(m.graph.node)
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(new.graph.initializer[0]), LARGE)
        assert shapes.outputs == ("y",)
    assert not m.graph.value_info, "the original was changed"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = tmp_path / "m.onnx", tmp_path / "out.onnx"
    path.write_bytes(MODELS["cache"]().SerializeToString())
    words = ["simplify", str(path), "--shapes-only", "--solve", "y=?x7x?", "--failures", "--up-to", "50"]
    assert main([*words, str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["values"]["all"] == {"dtype": "f32", "shape": ["b", "past + seq", 2], "elements": None}
    assert answer["solved"]["outcome"] == "solved" and sum(answer["solved"]["smallest"].values()) == 7 + 1
    assert len(answer["failures"]) == len(answer["conditions"]) and answer["failures"][0]["outcome"] == "solved"
    assert answer["written"] == str(out) and onnx.load(out).graph.value_info[0].name == "all"
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "y = [?, 7, ?]: " in said and "smallest sizes that fail each condition:" in said
    assert main(["simplify", str(path), "--check", str(out)]) in (0, 2), "the second file may stand behind options"
    assert out.exists()
