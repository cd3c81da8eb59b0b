"""`anyshape accelerate`: parts of a model become custom ops, and the rest stays; results at several shapes, what is left, files, errors."""

from __future__ import annotations

import builtins
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

from anyshape.cli import accelerate as command
from anyshape.cli import replacement_trial
from anyshape.cli.main import main
from anyshape.cli.replacement_trial import Setting, demand_close
from anyshape.custom_ops.partition import Partition
from anyshape.custom_ops.subgraphs import Subgraph
from anyshape.errors import AnyshapeError
from anyshape.frontends.onnx.mappings import all_mappings
from anyshape_testing.laws.custom_ops import missing, session
from tests.frontends.models import call, function, model, node, tensor

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
Array = NDArray[Any]
Seconds = Mapping[str, float]
RNG = np.random.default_rng(3)
F16, I64, BOOL, STRING = TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL, TensorProto.STRING


def floats(*shape: int) -> Array:
    return RNG.standard_normal(shape).astype(np.float32)


def around_a_branch() -> onnx.ModelProto:
    """Two parts, and between them an If, which reads a weight that both parts read."""
    branches = {
        f"{name}_branch": helper.make_graph([node(op, "a w", f"{name}_y")], name, [], [tensor(f"{name}_y", None)])
        for name, op in (("then", "Add"), ("else", "Sub"))
    }
    nodes = [
        node("MatMul", "x w", "m"), node("Tanh", "m", "a"), node("ReduceSum", "a", "total", keepdims=0), node("Greater", "total zero", "c"),
        node("If", "c", "b", **branches), node("MatMul", "b w", "d"), node("Add", "d bias", "y"),
    ]  # fmt: skip
    constants = {"w": floats(4, 4), "zero": np.zeros((), np.float32), "bias": floats(4)}
    return model(nodes, [tensor("x", [4, 4])], "y a", constants)


def chain_of(*ops: str, shape: tuple[int | str, ...] = ("n", 4), kind: int = TensorProto.FLOAT) -> onnx.ModelProto:
    names = ["x", *(f"v{k}" for k in range(len(ops)))]
    nodes = [node(op, names[k], names[k + 1]) for k, op in enumerate(ops)]
    return model(nodes, [tensor("x", shape, kind)], names[-1])


@dataclass
class Run:
    """One run of the command in a folder: its exit code, its answer, and where its files are."""

    code: int
    answer: dict[str, Any]
    folder: Path

    @property
    def proto(self) -> onnx.ModelProto:
        return onnx.load(self.folder / "fast.onnx")

    @property
    def kinds(self) -> list[str]:
        """The operators of the model that was written; `op` for a custom one."""
        return ["op" if n.domain == "com.anyshape" else n.op_type for n in self.proto.graph.node]

    def session(self) -> Any:
        return session(self.folder / "libfast.so", (self.folder / "fast.onnx").read_bytes())

    def demand_equal(self, *feeds: dict[str, Array]) -> None:
        import onnxruntime

        before, after = onnxruntime.InferenceSession(self.folder / "m.onnx"), self.session()
        for feed in feeds:
            for a, b in zip(before.run(None, feed), after.run(None, feed), strict=True):
                assert a.dtype == b.dtype and a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=2e-3 if a.dtype == np.float16 else 1e-4, atol=1e-5)


Accelerate = Callable[..., Run]


@pytest.fixture
def accelerate(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Accelerate:
    monkeypatch.setattr("anyshape.cli.progress.QUIET", 1e6)

    def run(proto: onnx.ModelProto, *words: str, least: str = "0") -> Run:
        proto.ir_version = min(proto.ir_version, 9)
        onnx.save(proto, tmp_path / "m.onnx")
        files = [str(tmp_path / name) for name in ("m.onnx", "fast.onnx", "libfast.so")]
        code = main(["accelerate", *files, "--repeat", "1", "--threads", "1", "--json", "--least", least, *words])
        return Run(code, json.loads(capsys.readouterr().out), tmp_path)

    return run


def written(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()} - {"m.onnx"}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], Seconds]], None]:
    """Sets what each measurement of calls in turns says, by its number."""

    def install(seconds: Callable[[int], Seconds]) -> None:
        numbers = iter(range(1000))
        monkeypatch.setattr(replacement_trial, "alternating", lambda calls, repeat: seconds(next(numbers)))

    return install


FASTER, SLOWER = {"before": 2e-3, "after": 1e-3}, {"before": 1e-3, "after": 2e-3}


def test_results_are_equal_at_several_shapes(accelerate: Accelerate) -> None:
    nodes = [
        node("MatMul", "x w", "a"), node("Erf", "a", "b"), node("Shape", "x", "s"), node("Gather", "s zero", "n"),
        node("Concat", "n m1", "size", axis=0), node("Reshape", "b size", "c"), node("Softmax", "c", "y"),
    ]  # fmt: skip
    constants = {"w": floats(4, 6), "zero": np.array([0]), "m1": np.array([-1])}
    run = accelerate(model(nodes, [tensor("x", ["n", 4])], "y b", constants))
    assert run.code == 0 and run.kinds == ["op"] and written(run.folder) == {"fast.onnx", "libfast.so"}
    (part,) = run.answer["replaced"]
    assert len(part["nodes"]) == 7 and part["seconds"].keys() == run.answer["seconds"].keys() == {"before", "after"}
    assert not run.answer["left"] and not run.proto.graph.initializer
    run.demand_equal(*({"x": floats(n, 4)} for n in (1, 3, 64)))
    assert [o.shape for o in run.session().get_outputs()] == [["n", 6], ["n", 6]]


def test_control_flow_stays_between_two_parts(accelerate: Accelerate) -> None:
    run = accelerate(around_a_branch())
    assert sorted(run.kinds) == ["If", "op", "op"] and len(run.answer["replaced"]) == 2
    assert [t.name for t in run.proto.graph.initializer] == ["w"]  # the branches read it
    assert run.answer["left"] == [{"nodes": ["If 'b'"], "reason": "it has graphs within it"}]
    x = np.abs(floats(4, 4))
    run.demand_equal({"x": x}, {"x": -x})


def test_strings_stay(accelerate: Accelerate) -> None:
    nodes = [node("StringNormalizer", "t", "u"), node("Add", "x x", "a"), node("Neg", "a", "y")]
    run = accelerate(model(nodes, [tensor("t", ["k"], STRING), tensor("x", ["n"])], "u y"), "--input", 't=["ab", "c"]')
    assert sorted(run.kinds) == ["StringNormalizer", "op"]
    assert "t: an op has no tensors of" in run.answer["left"][0]["reason"]
    results = run.session().run(None, {"t": np.array(["ab", "c"], object), "x": np.ones(3, np.float32)})
    assert [*results[0]] == ["ab", "c"] and [*results[1]] == [-2.0] * 3


def test_nothing_to_replace_writes_nothing(accelerate: Accelerate) -> None:
    proto = model([node("StringConcat", "t t", "y")], [tensor("t", ["k"], STRING)], "y", opset=20)
    run = accelerate(proto)
    assert run.code == command.NOTHING == 1 and not written(run.folder)
    assert run.answer["replaced"] == run.answer["written"] == [] and run.answer["seconds"] == {}


def test_the_text_says_that_nothing_pays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], measured: Callable[[Any], None]
) -> None:
    measured(lambda k: SLOWER)
    proto = chain_of("Exp", "Neg")
    proto.ir_version = 9
    onnx.save(proto, tmp_path / "m.onnx")
    (tmp_path / "fast.onnx").write_text("old")
    words = [str(tmp_path / n) for n in ("m.onnx", "fast.onnx", "libfast.so")]
    assert main(["accelerate", *words, "--repeat", "1"]) == 1
    assert "nothing is replaced: no part of the model gains enough in onnxruntime" in capsys.readouterr().out
    assert written(tmp_path) == {"fast.onnx"} and (tmp_path / "fast.onnx").read_text() == "old"
    assert main(["accelerate", *words, "--repeat", "1", "--least", "0"]) == 0
    said = capsys.readouterr().out
    assert "2 nodes, Exp+Neg 'v0': 1,000.0 us before, 2,000.0 us after" in said and "0.50 times as fast" in said


def test_narrow_floats(accelerate: Accelerate) -> None:
    run = accelerate(chain_of("Exp", "Softmax", kind=F16), "--shape", "x=3x4")
    assert run.kinds == ["op"]
    run.demand_equal(*({"x": floats(n, 4).astype(np.float16)} for n in (1, 5)))


def test_names_with_dots_scalars_and_sizes_that_data_decide(accelerate: Accelerate) -> None:
    """Inputs `x` and `x.1` are no row of tensors; NonZero counts in a run; a scalar has no shape to infer from."""
    nodes = [node("Add", "x x.1", "a"), node("Mul", "a s", "b"), node("NonZero", "b", "y")]
    run = accelerate(model(nodes, [tensor("x", ["n"]), tensor("x.1", ["n"]), tensor("s", [])], "y"))
    assert run.kinds == ["op"]
    for n in (2, 9):
        x = np.arange(n, dtype=np.float32)
        run.demand_equal(
            {"x": x, "x.1": x, "s": np.array(2, np.float32)}, {"x": x, "x.1": -x, "s": np.array(2, np.float32)}
        )


def test_an_operand_that_is_known_is_a_constant_of_the_part(
    accelerate: Accelerate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Axes decide the rank of a Squeeze, so that they have to be known; what a caller passes stays an input."""
    nodes = [node("Add", "one zero", "axes"), node("Squeeze", "x axes", "y")]
    constants = {"one": np.array([1]), "zero": np.array([0])}
    monkeypatch.setattr(command, "candidates", lambda *_: [frozenset({1})])
    run = accelerate(model(nodes, [tensor("x", ["n", 1, 4])], "y", constants))
    (op,) = (n for n in run.proto.graph.node if n.domain == "com.anyshape")
    assert [*op.input] == ["x"]
    run.demand_equal({"x": floats(3, 1, 4)})


def test_inputs_with_defaults_can_still_be_passed(accelerate: Accelerate) -> None:
    proto = model([node("Mul", "x k", "y")], [tensor("x", ["n"]), tensor("k", [])], "y", {"k": np.array(3, np.float32)})
    run = accelerate(proto)
    assert run.kinds == ["op"]
    x = floats(4)
    run.demand_equal({"x": x}, {"x": x, "k": np.array(5, np.float32)})


def test_constants_that_both_sides_read_stay(accelerate: Accelerate) -> None:
    nodes = [
        node("Constant", "", "k", value_float=2.0), node("Mul", "x k", "a"), node("RandomUniformLike", "a", "r"), node("Mul", "r k", "z"),
        node("Sub", "z z", "y"),
    ]  # fmt: skip
    proto = model(nodes, [tensor("x", ["n"])], "y a k")
    run = accelerate(proto)
    assert sorted(run.kinds) == ["Constant", "RandomUniformLike", "op", "op"]
    assert run.answer["left"] == [{"nodes": ["RandomUniformLike 'r'"], "reason": "it draws random numbers"}]
    run.demand_equal({"x": floats(5)})


def test_what_may_draw_random_numbers_is_replaced_where_it_does_not(accelerate: Accelerate) -> None:
    """A Dropout passes its input on; in training it does not."""
    nodes = [node("Exp", "x", "e"), node("Dropout", "e ratio", "d"), node("Neg", "d", "y")]
    proto = model(nodes, [tensor("x", ["n"])], "y", {"ratio": np.array(0.5, np.float32)})
    run = accelerate(proto)
    assert run.kinds == ["op"]
    run.demand_equal({"x": floats(6)})
    nodes[1].input.append("training")
    constants = {"ratio": np.array(0.5, np.float32), "training": np.array(True)}
    run = accelerate(model(nodes, [tensor("x", ["n"])], "y", constants))
    assert sorted(run.kinds) == ["Dropout", "op", "op"]
    assert run.answer["left"] == [{"nodes": ["Dropout 'd'"], "reason": "it draws random numbers"}]


def test_functions_of_the_model_are_inlined(accelerate: Accelerate) -> None:
    double = function("Double", "a", [node("Add", "a a", "y")])
    proto = model(
        [call("Double", "x", "v"), node("Exp", "v", "y")], [tensor("x", ["n"])], "y", {}, 17, ["acme"], [double]
    )
    run = accelerate(proto)
    assert run.kinds == ["op"]
    run.demand_equal({"x": floats(3)})


def test_dims_bind_and_bound_the_library(accelerate: Accelerate) -> None:
    run = accelerate(chain_of("Exp", "Neg"), "--dim", "n=2:8")
    run.demand_equal({"x": floats(2, 4)}, {"x": floats(8, 4)})
    with pytest.raises(Exception, match="INVALID_ARGUMENT"):
        run.session().run(None, {"x": floats(9, 4)})


def test_a_library_of_another_model_is_refused(accelerate: Accelerate) -> None:
    old = accelerate(chain_of("Exp", "Neg")).proto
    run = accelerate(chain_of("Neg", "Exp"))
    with pytest.raises(Exception, match="subgraph_"):
        session(run.folder / "libfast.so", old.SerializeToString())


def installed_profiles(monkeypatch: pytest.MonkeyPatch, ours: list[float], theirs: list[float]) -> None:
    """Sets the seconds of each node in both profiles."""
    for name, seconds in (("profile_here", ours), ("profile_in_onnxruntime", theirs)):
        rows = [(frozenset({k}), s) for k, s in enumerate(seconds)]
        monkeypatch.setattr(command, name, lambda *_, rows=rows: rows)


def test_parts_grow_from_nodes_that_are_faster_here(
    accelerate: Accelerate, measured: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(lambda k: FASTER)
    installed_profiles(monkeypatch, [1e-3, 1e-3, 2e-3, 1e-3], [2e-3, 3e-3, 1e-3, 1e-3])
    run = accelerate(chain_of("Exp", "Neg", "Abs", "Tanh"), least="0.1")
    assert run.kinds == ["op", "Abs", "Tanh"] and run.answer["replaced"][0]["nodes"] == ["Exp 'v0'", "Neg 'v1'"]
    assert run.answer["replaced"][0]["seconds"] == run.answer["seconds"] == FASTER
    run.demand_equal({"x": floats(3, 4)})


def test_a_part_that_gains_too_little_alone_is_tried_in_halves(
    accelerate: Accelerate, measured: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(lambda k: SLOWER if k in (0, 1) else FASTER)
    installed_profiles(monkeypatch, [1e-3] * 4, [2e-3] * 4)
    run = accelerate(chain_of("Exp", "Neg", "Abs", "Tanh"), least="0.1")
    assert [p["nodes"] for p in run.answer["replaced"]] == [["Exp 'v0'"], ["Neg 'v1'"], ["Abs 'v2'", "Tanh 'v3'"]]
    run.demand_equal({"x": floats(3, 4)})


def test_a_replacement_with_which_the_model_is_slower_is_taken_back(
    accelerate: Accelerate, measured: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed_profiles(monkeypatch, [1e-3, 2e-3, 1e-3], [2e-3, 1e-3, 2e-3])
    little = {"before": 2e-3, "after": 1.5e-3}
    measured(lambda k: (little, FASTER, SLOWER, FASTER)[k])  # two parts, then the model with both, and with one
    run = accelerate(chain_of("Exp", "Neg", "Abs"), least="0.1")
    assert run.kinds == ["Exp", "Neg", "op"]
    assert run.answer["left"] == [
        {"nodes": ["Exp 'v0'"], "reason": "with it the model takes 1,000.0 us before, 2,000.0 us after"}
    ]


def test_a_node_whose_results_differ_is_left(accelerate: Accelerate, monkeypatch: pytest.MonkeyPatch) -> None:
    real = replacement_trial.tried

    def strict(subgraph: Subgraph, values: Any, setting: Setting) -> Seconds:
        if 1 in subgraph.places:
            raise AnyshapeError("v1 differs")
        return real(subgraph, values, setting)

    monkeypatch.setattr(replacement_trial, "tried", strict)
    run = accelerate(chain_of("Exp", "Neg", "Abs", "Tanh"))
    assert run.answer["left"] == [{"nodes": ["Neg 'v1'"], "reason": "v1 differs"}] and run.kinds == ["op", "Neg", "op"]
    run.demand_equal({"x": floats(3, 4)})


def test_a_model_whose_results_differ_in_each_call_is_left(accelerate: Accelerate) -> None:
    nodes = [node("RandomUniformLike", "x", "r"), node("Exp", "x", "a"), node("Add", "a r", "y")]
    run = accelerate(model(nodes, [tensor("x", ["n"])], "y"))
    assert run.code == 1 and not written(run.folder)
    assert run.answer["left"][-1]["reason"].startswith("with it y differs from onnxruntime's by")
    nodes[0] = node("RandomUniform", "", "r", shape=[1])  # it reads nothing, and is no constant
    run = accelerate(model(nodes, [tensor("x", ["n"])], "y"))
    assert run.code == 1 and run.answer["left"][0] == {
        "nodes": ["RandomUniform 'r'"],
        "reason": "it draws random numbers",
    }


def test_operators_that_only_onnxruntime_has_stay(
    accelerate: Accelerate, measured: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model as a whole has no profile here then."""
    table = {name: versions for name, versions in all_mappings().items() if name != "Abs"}
    for module in ("loading", "named_values"):
        monkeypatch.setattr(f"anyshape.frontends.onnx.{module}.all_mappings", lambda: table)
    measured(lambda k: FASTER)
    run = accelerate(chain_of("Exp", "Abs", "Neg"), least="0.1")
    assert run.kinds == ["op", "Abs", "op"] and "its operator is not supported" in run.answer["left"][0]["reason"]
    run.demand_equal({"x": floats(3, 4)})


def test_nodes_may_stand_in_any_order(accelerate: Accelerate) -> None:
    proto = around_a_branch()
    nodes = [*proto.graph.node][::-1]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    run = accelerate(proto)
    assert sorted(run.kinds) == ["If", "op", "op"]
    x = np.abs(floats(4, 4))
    run.demand_equal({"x": x}, {"x": -x})


def test_results_must_be_as_close_as_the_tolerance() -> None:
    a = np.array([1.0, 2.0], np.float32)
    demand_close(["y"], [a], [a * np.float32(1.0001)], 1e-3)
    with pytest.raises(AnyshapeError, match=r"y differs from onnxruntime's by 0\.01 of its largest element"):
        demand_close(["y"], [a], [a * np.float32(1.01)], 1e-3)
    with pytest.raises(AnyshapeError, match="y differs"):
        demand_close(["y"], [a], [a.astype(np.float64)], 1e-3)


def test_old_files_stay_where_one_cannot_be_written(
    accelerate: Accelerate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("fast.onnx", "libfast.so"):
        (tmp_path / name).write_text("old")

    def full(model: Any, path: Path) -> None:
        raise AnyshapeError(f"{path}: cannot be written: No space left on device")

    monkeypatch.setattr(command, "write_model", full)
    run = accelerate(chain_of("Exp"))
    assert (
        run.code == 2 and "No space left" in run.answer["message"] and written(tmp_path) == {"fast.onnx", "libfast.so"}
    )
    assert {(tmp_path / name).read_text() for name in ("fast.onnx", "libfast.so")} == {"old"}


@pytest.mark.parametrize(("words", "said"), [
    (["m.onnx", "m2.onnx", "m2.onnx"], "the model and the library are one file: m2.onnx; name two"),
    (["m.onnx", "no/o.onnx", "l.so"], "no/o.onnx: cannot be written: there is no directory no"),
    (["m.onnx", "o.onnx", "folder"], "folder: cannot be written: it is a directory, not a plain file"),
    (["none.onnx", "o.onnx", "l.so"], "none.onnx: cannot be read"),
    (["m.onnx", "o.onnx", "l.so", "--dim", "m=3"], "no input of m.onnx has a dim 'm'"),
    (["m.onnx", "o.onnx", "l.so", "--shape", "z=3"], "the model has no input 'z'; its inputs are x"),
    (["m.onnx", "o.onnx", "l.so", "--target", "wasm32"], "--target wasm32: this machine runs .*, and what is replaced is measured first"),
    (["m.onnx", "o.onnx", "l.so", "--shape", "x=3x5"], "onnxruntime fails on the model: .*INVALID_ARGUMENT"),
])  # fmt: skip
def test_wrong_arguments(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    proto = chain_of("Exp")
    proto.ir_version = 9
    onnx.save(proto, tmp_path / "m.onnx")
    assert main(["accelerate", *words]) == 2
    assert re.search(said, capsys.readouterr().err)
    assert written(tmp_path) == {"folder"}


def test_what_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    proto = chain_of("Exp")
    proto.ir_version = 9
    onnx.save(proto, tmp_path / "m.onnx")
    real = builtins.__import__

    def absent(name: str, *more: Any) -> Any:
        if name == "onnxruntime":
            raise ImportError(name)
        return real(name, *more)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", absent)
        assert main(["accelerate", "m.onnx", "o.onnx", "l.so"]) == 2
    assert "onnxruntime, which is not installed (pip install onnxruntime)" in capsys.readouterr().err
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["accelerate", "m.onnx", "o.onnx", "l.so"]) == 2
    assert "install a C compiler, or the package ziglang" in capsys.readouterr().err


@pytest.mark.parametrize("least", ["-0.1", "1", "much"])
def test_the_least_gain_is_a_share(least: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["accelerate", "m.onnx", "o.onnx", "l.so", "--least", least])
    assert "it must be a number from 0 to less than 1" in capsys.readouterr().err


def test_groups_have_no_cycle_between_them() -> None:
    """0 -> 1 -> 2 -> 3, and 0 -> 3: without 1 and 2 between them 0 and 3 are no group; with them they are."""
    partition = Partition([{1, 3}, {2}, {3}, set()])
    assert not partition.join({0, 3}) and partition.group_of == [0, 1, 2, 3]
    assert partition.join({1, 2}) and not partition.join({0, 3}) and partition.join({0, 1, 3})
    assert partition.members == {0: {0, 1, 2, 3}}


def test_two_groups_may_not_read_each_other() -> None:
    """0 -> 1 and 2 -> 3: of the groups 0, 3 and 1, 2 each could be a node, but not both."""
    partition = Partition([{1}, set(), {3}, set()])
    assert partition.join({0, 3}) and not partition.join({1, 2})
    alone = Partition([{1}, set(), {3}, set()])
    assert alone.join({1, 2})
