"""Values of wrong kinds as arguments of every public function: nothing but an AnyshapeError comes out of it, and never a hang.

The functions are what `anyshape.__all__` leads to; the values come from a table, wherever a function has a parameter, the others being
right.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import onnx
import pytest

import anyshape
from anyshape import control, lists, onnx_backend, ops
from anyshape.errors import LONGEST, LONGEST_LINE, AnyshapeError, ArgumentError, DtypeError
from anyshape.onnxruntime import InferenceSession, OrtValue, RunOptions, SessionOptions
from anyshape.vm.compiling.options import CompileOptions, Options
from anyshape.vm.run.destinations import overlaps_itself
from anyshape.vm.run.recorder import Recorder
from tests.robust.test_files import exp_model

VALUES: list[Any] = [
    None, 0, -1, 2**70, 1.5, float("nan"), True, "", "x", "a\0b", b"", b"\xff", (), [], [None], [1, [2]], {}, {1: 2}, {"x": None}, {"x": 1},
    set(), object(), lambda *_: None, int, np.zeros(0), np.array(None, object), np.array("x"), slice(3), Path("/nowhere"), ...,
    "a" * 60_000, ["a"] * 10_000, {"a" * 60_000: 1}, np.zeros(60_000),
]  # fmt: skip
X = anyshape.input("x", "f32[n]")
FUNCTION = anyshape.function([X], ops.exp(X))
EXE = anyshape.compile(FUNCTION)
FEED = {"x": np.zeros(3, np.float32)}
SESSION = InferenceSession(FUNCTION)
CALLEE = control.function("f", {"a": "f32[n]"}, ["f32[n]"])
LIST = lists.of([X, X])
RIGHT: dict[str, Any] = {
    "model": FUNCTION, "inputs": FEED, "results": ops.exp(X), "name": "x", "type": "f32[n]", "array": np.zeros(3, np.float32), "text":
    str(FUNCTION),
    "equation": "i,i->", "operands": X, "n": 1, "path": "/nowhere/at/all", "list": LIST, "optional": LIST, "value": X, "values": [X],
    "x": X,
    "element": "f32[?]", "f": CALLEE, "arguments": [X], "cond": np.array(True), "then": lambda *_: X, "otherwise": lambda *_: X, "trip": 3,
    "body": lambda *a: [*a[-1:]], "carried": [X], "params": {"a": "f32[n]"}, "states": [X], "scanned": [X], "collects": 0, "at": 0,
    "sizes": None, "args": np.zeros(3, np.float32), "input_feed": FEED, "output_names": None, "check": lambda: None, "dtype":
    anyshape.constant(1.0).type.dtype, "shape": (3,), "path_or_bytes": FUNCTION, "device": "CPU", "node": None, "hook": lambda _: None,
}  # fmt: skip
MODEL = exp_model()
BOUND = SESSION.io_binding()
BOUND.bind_cpu_input("x", FEED["x"])
BOUND.bind_output("output0")
SHAPES = anyshape.shapes(onnx.parser.parse_model(
    """<ir_version: 8, opset_import: ["" : 17]> g (float[n] x, float[3] w) => (float[k] y) { y = Add(x, w) }"""
))  # fmt: skip
SAVED = Path(tempfile.mkdtemp()) / "model"
EXE.save(SAVED)
RIGHT_OF: dict[str, dict[str, Any]] = {
    "Function": {"params": [X], "results": [ops.exp(X)]}, "Value": {"type": X.type}, "function": {"inputs": [X]}, "load": {"path": SAVED},
    "control.loop": {"body": lambda k, *v: v, "carried": [X]}, "control.function": {"results": ["f32[n]"]}, "simplify": {"model": MODEL},
    "quantise": {"model": MODEL},
    "shapes": {"model": MODEL}, "Shapes.solve": {"shapes": {"y": (3,)}}, "Shapes.smallest_failure": {"condition": SHAPES.conditions[0]},
    "gradients": {"of": ops.sum(ops.exp(X)), "by": [X]}, "lists.optional": {"value": X}, "Executable.save": {"path": SAVED},
    "Executable.export": {"folder": SAVED.with_name("exported"), "name": "f", "target": "x86-64-v3", "weights": "file"},
    "onnx_backend.is_compatible": {"model": MODEL}, "onnx_backend.run_node": {"node": MODEL.graph.node[0], "inputs": [FEED["x"]]},
    "InferenceSession.create_ortvalue_from_shape_and_type": {"element_type": 1, "device_type": "cpu"},
    "InferenceSession.run_with_ort_values": {"input_dict_ort_values": {"x": OrtValue(FEED["x"])}},
    "InferenceSession.run_async": {"callback": lambda *_: None, "user_data": None},
    "InferenceSession.run_with_iobinding": {"iobinding": BOUND}, "InferenceSession.set_ep_dynamic_options": {"options": {}},
    "IOBinding.bind_input": {"device_type": "cpu", "device_id": 0, "element_type": np.float32, "buffer_ptr": FEED["x"].ctypes.data},
    "IOBinding.bind_ortvalue_input": {"ortvalue": OrtValue(FEED["x"])}, "IOBinding.bind_output": {"name": "output0"},
    "IOBinding.bind_ortvalue_output": {"name": "output0", "ortvalue": OrtValue(FEED["x"])}, "OrtValue.update_inplace": {"data": FEED["x"]},
    "SessionOptions.add_free_dimension_override_by_name": {"value": 1}, "SessionOptions.get_session_config_entry": {"key": "k"},
    "SessionOptions.add_free_dimension_override_by_denotation": {"denotation": "d", "value": 1},
    "SessionOptions.add_session_config_entry": {"key": "k", "value": "v"}, "RunOptions.get_run_config_entry": {"key": "k"},
    "RunOptions.add_run_config_entry": {"key": "k", "value": "v"}, "IOBinding.bind_cpu_input": {"arr_on_cpu": FEED["x"]},
    "einsum": {"equation": "i->"}, "Executable.__call__": {"x": FEED["x"]},
}  # fmt: skip
"""Arguments of one function that are not those of `RIGHT`"""


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """What people call: functions, classes that they make, methods of what they get."""
    for name in anyshape.__all__:
        value = getattr(anyshape, name)
        if isinstance(value, types.ModuleType):
            if name not in ("errors", "ops", "passes"):
                yield from ((f"{name}.{n}", f) for n, f in vars(value).items() if _is_public(n, f, value))
        elif inspect.isclass(value):
            if name not in ("AnyshapeError", "Executable"):
                yield name, value
        else:
            yield name, value
    for what, instance in (
        ("Executable", EXE),
        ("InferenceSession", SESSION),
        ("Shapes", SHAPES),
        ("IOBinding", SESSION.io_binding()),
        ("OrtValue", OrtValue(FEED["x"])),
        ("SessionOptions", SessionOptions()),
        ("RunOptions", RunOptions()),
    ):
        yield from (
            (f"{what}.{n}", f) for n, f in inspect.getmembers(instance, inspect.ismethod) if not n.startswith("_")
        )
    yield "Executable.__call__", EXE.__call__
    yield "InferenceSession", InferenceSession


def _is_public(name: str, f: Any, module: types.ModuleType) -> bool:
    return not name.startswith("_") and inspect.isroutine(f) and getattr(f, "__module__", "") == module.__name__


PUBLIC = dict(functions())
FOREVER = {"Executable.wait", "Executable.check_first"}
REFUSED = {
    *(f"InferenceSession.{n}" for n in (
        "get_input_memory_infos", "get_output_memory_infos", "get_input_epdevices", "get_provider_graph_assignment_info",
        "run_with_ortvaluevector", "release_captured_graph")),
    "SessionOptions.register_custom_ops_library", "RunOptions.add_active_adapter", "OrtValue.as_sparse_tensor",
    "SessionOptions.get_session_config_entry", "RunOptions.get_run_config_entry",
}  # fmt: skip
"""Methods that refuse whatever is passed, and those that need a call of another one before"""
CALLED = {"body", "then", "otherwise", "callback", "hook"}
"""What callers give to be called: what that raises comes out as it is."""
OFTEN = {"TensorType", "Value", "Function", "Executable.run", "InferenceSession.run"}
"""Names made or called so often that nothing stands before them: Python says itself, as a TypeError, that there are too many arguments."""


def test_the_walk_finds_what_there_is() -> None:
    assert {
        "compile",
        "load",
        "simplify",
        "profile",
        "seed",
        "einsum",
        "lists.split",
        "control.loop",
        "Executable.run",
    } <= set(PUBLIC)
    assert {
        "onnx_backend.prepare",
        "onnx_backend.run_node",
        "InferenceSession.run",
        "TensorType",
        "Function",
        "Value",
    } <= set(PUBLIC)
    assert len(PUBLIC) >= 50


def outcome(call: Callable[[], object]) -> None:
    try:
        call()
    except AnyshapeError as e:
        text = str(e)
        assert len(text) <= LONGEST + 50 and max(map(len, text.split("\n"))) <= LONGEST_LINE + 3


def valid_call(name: str) -> tuple[inspect.Signature, dict[str, Any]]:
    """The signature of a public function, and valid arguments for all its parameters without a default."""
    signature = inspect.signature(PUBLIC[name])
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [n for n, p in signature.parameters.items() if p.default is p.empty and p.kind not in variadic]
    return signature, {n: RIGHT.get(n) for n in required} | RIGHT_OF.get(name, {})


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - FOREVER - REFUSED))
def test_valid_arguments_are_accepted(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Otherwise the next test would see one error, of an argument that it does not mean."""
    monkeypatch.chdir(tmp_path)
    signature, valid = valid_call(name)
    variadic = [n for n, p in signature.parameters.items() if p.kind is p.VAR_POSITIONAL and n in RIGHT]
    PUBLIC[name](*valid.values(), X) if variadic == ["operands"] else PUBLIC[name](**valid)


@pytest.mark.parametrize("name", PUBLIC)
def test_values_of_wrong_kinds(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if name in FOREVER:
        return
    monkeypatch.chdir(tmp_path)  # a name of one letter is a file that can be written
    f = PUBLIC[name]
    signature, right = valid_call(name)
    for parameter, p in signature.parameters.items():
        for value in VALUES:
            if callable(value) and parameter in CALLED:
                continue
            if p.kind is inspect.Parameter.VAR_POSITIONAL:
                outcome(partial(f, *right.values(), value))
            elif p.kind is inspect.Parameter.VAR_KEYWORD:
                outcome(partial(f, **right, strange=value))
            else:
                outcome(partial(f, **{**right, parameter: value}))
    if name in OFTEN:
        return
    outcome(lambda: f(*[None] * 30))
    outcome(lambda: f(nobody_has_this=1))


@pytest.mark.parametrize("option", [f for f in Options.__dataclass_fields__ if f != "dims"])
def test_options_of_wrong_kinds(option: str) -> None:
    for value in VALUES:
        outcome(partial(anyshape.compile, FUNCTION, **{option: value}))
        outcome(partial(EXE.by, **{option: value}))


@pytest.mark.parametrize("call", [
    lambda: EXE.run(None), lambda: anyshape.load(None), lambda: anyshape.compile(FUNCTION, dims=5), lambda: anyshape.compile(FUNCTION,
    {1: 2}), lambda: anyshape.compile(FUNCTION, dump="llvm"), lambda: anyshape.compile(FUNCTION, threads="2"), lambda: EXE.run(FEED, 5),
    lambda: anyshape.compile(), lambda: anyshape.seed("x"), lambda: lists.of(5), lambda: control.loop(3, 4), lambda: EXE.save(None),  # type: ignore[call-arg]
])  # fmt: skip
def test_their_messages(call: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError):
        call()


def test_errors_of_arguments_are_those_of_python_too() -> None:
    with pytest.raises(ValueError, match="threads must be a number"):
        anyshape.compile(FUNCTION, threads=-1)
    with pytest.raises(ValueError, match="there is no input y"):
        EXE.run({"y": FEED["x"]})
    with pytest.raises(TypeError, match="f64"):
        EXE.run({"x": np.zeros(3)})
    assert not issubclass(DtypeError, ValueError) and not issubclass(ArgumentError, TypeError)


def test_long_texts_lack_their_middle_or_their_end() -> None:
    name = "a" * 60_000
    text = str(AnyshapeError(f"input {name} must be short"))
    assert text.startswith("input aaa") and text.endswith("aaa must be short") and len(text) == LONGEST_LINE + 3
    lines = "\n".join(["a line"] * 10_000)
    assert str(AnyshapeError(lines)).endswith(f"… and {len(lines) - LONGEST} more characters")
    whole = "\n".join(["b" * LONGEST_LINE] * 19)
    assert str(AnyshapeError(whole)) == whole and AnyshapeError(name).args == (name,)


def test_type_checkers_see_the_keywords_of_compile() -> None:
    fields = set(Options.__dataclass_fields__)
    assert set(get_type_hints(CompileOptions, localns={"Recorder": Recorder})) == fields - {"dims"}
    for f in (anyshape.compile, anyshape.profile, InferenceSession.__init__, onnx_backend.prepare):
        hints = get_type_hints(f)
        assert "CompileOptions" in str(hints.get("options") or hints["kwargs"]), f


def test_type_checkers_see_all_public_names() -> None:
    tree = ast.parse(Path(anyshape.__file__).read_text())
    (block,) = [n for n in tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    seen = {a.asname or a.name for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    assert seen == set(anyshape.__all__) and "InferenceSession" in seen
    assert set(anyshape.__all__) <= set(dir(anyshape))


@pytest.mark.parametrize("name", anyshape.__all__)
def test_modules_can_be_imported_by_their_names(name: str) -> None:
    if isinstance(getattr(anyshape, name), types.ModuleType):
        code = f"import anyshape.{name} as m; import anyshape; assert m is anyshape.{name}"
        subprocess.run([sys.executable, "-c", code], check=True)


def test_right_arguments_pass() -> None:
    assert anyshape.compile(FUNCTION, {"n": 3}, dump=[], threads=np.int64(1), fuse=False)(FEED["x"]).shape == (3,)
    assert EXE.run(FEED, None)[0].shape == EXE.run(FEED, {}, deadline=100)[0].shape == (3,)


# --- ops: every one, with a wrong value in each place


@pytest.mark.parametrize("name", sorted(n for n in ops.__all__ if callable(getattr(ops, n))))
def test_ops(name: str) -> None:
    f = getattr(ops, name)
    signature = inspect.signature(f)
    names = [n for n, p in signature.parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    for parameter in names:
        for value in VALUES[:: 1 if len(names) < 3 else 3]:
            outcome(partial(f, **dict.fromkeys(names[:1], X) | {parameter: value}))
    outcome(lambda: f(*VALUES[:5]))


# --- places for results


def two() -> anyshape.Executable:
    return anyshape.compile(anyshape.function([X], {"a": ops.exp(X), "b": ops.neg(X)}))


def test_places_that_overlap_are_refused() -> None:
    exe, memory, feed = two(), np.zeros(8, np.float32), {"x": np.ones(4, np.float32)}
    for a, b in (
        (memory[:4], memory[:4]),
        (memory[:4], memory[3:7]),
        (memory[::2], memory[2:6]),
        (memory[4:], memory[:5][::-1][:4]),
    ):
        with pytest.raises(ArgumentError, match="shares memory with that of output"):
            exe.run(feed, {"a": a, "b": b})
    itself = np.lib.stride_tricks.as_strided(memory, (4,), (0,))
    with pytest.raises(ArgumentError, match="elements of the array overlap"):
        exe.run(feed, {"a": itself})
    exe.run(feed, {"a": memory[::2], "b": memory[1::2]})
    np.testing.assert_allclose(memory, np.stack([np.exp(feed["x"]), -feed["x"]], 1).reshape(-1), rtol=1e-6)
    exe.run(feed, {"a": memory[:4], "b": memory[4:]})
    np.testing.assert_array_equal(memory[4:], -feed["x"])


@pytest.mark.parametrize(("shape", "strides", "is_itself"), [
    ((4,), (4,), False), ((4,), (8,), False), ((4,), (0,), True), ((4,), (2,), True), ((1, 4), (0, 4), False), ((3, 4), (16, 4), False),
    ((3, 4), (12, 4), True), ((4, 3), (4, 16), False), ((2, 3), (12, 8), False), ((0, 5), (0, 0), False), ((3, 4), (-16, 4), False),
])  # fmt: skip
def test_arrays_that_overlap_themselves(shape: tuple[int, ...], strides: tuple[int, ...], is_itself: bool) -> None:
    memory = np.zeros(100, np.float32)[50:]
    a = np.lib.stride_tricks.as_strided(memory, shape, strides)
    assert overlaps_itself(a) is is_itself


@pytest.mark.parametrize("opset", [-1, 2**70, "18", 1.5, [18]])
def test_opsets_of_a_node_are_numbers(opset: Any) -> None:
    run = partial(onnx_backend.run_node, MODEL.graph.node[0], [FEED["x"]])
    with pytest.raises(ArgumentError, match="opset_version must be a positive integer"):
        run(opset_version=opset)
    assert run(opset_version=13)[0].tolist() == [1, 1, 1]


def test_lists_of_many_carried_values_take_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparisons of values with each other, of which there were as many as pairs of carried values"""
    compared = count()
    monkeypatch.setattr(type(X), "__eq__", lambda a, b: next(compared) < 0 or a is b)
    control.loop(3, lambda k, *v: v, [X] * 2_000)
    assert next(compared) < 20_000
