"""`anyshape.onnxruntime` beside onnxruntime: the same scripts, the same names, the same errors."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as theirs
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as their_state

import anyshape.onnxruntime as ours
from anyshape.errors import AnyshapeError, Cancelled
from anyshape.onnxruntime import log
from anyshape.onnxruntime.allocators import REFUSED_INFO
from anyshape.onnxruntime.capi import onnxruntime_pybind11_state as our_state
from anyshape.onnxruntime.options import REFUSED_OPTIONS
from anyshape.onnxruntime.refused import LACKING, RefusedName
from tests.dropin.memory_scripts import memory_info
from tests.dropin.scripts import ALIKE, APART, CHAIN, CPU, DATA, DEFAULT, SAME, X, options, session
from tests.frontends.models import model, node, tensor

PAGE = (Path(__file__).parents[2] / "docs" / "onnxruntime.md").read_text()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    theirs.set_default_logger_severity(4)
    yield
    ours.set_default_logger_severity(2)


def outcome(script: Any, ort: Any, state: Any) -> tuple[Any, BaseException | None]:
    try:
        return script(ort, state), None
    except Exception as e:
        return None, e


def assert_alike(a: Any, b: Any) -> None:
    if isinstance(a, list | tuple):
        assert type(a) is type(b) and len(a) == len(b), (a, b)
        for x, y in zip(a, b):
            assert_alike(x, y)
    elif isinstance(a, np.ndarray):
        assert isinstance(b, np.ndarray) and a.dtype == b.dtype and a.shape == b.shape, (a, b)
        np.testing.assert_array_equal(a, b)
    else:
        assert a == b and type(a) is type(b), (a, b)


def is_alike(theirs: BaseException, ours: BaseException) -> bool:
    """Whether an error is caught by code that catches the other: of Python's own errors a subclass, of others one of the same name."""
    if type(theirs) is Exception:
        return True
    own = type(theirs).__module__ == "builtins"
    return (
        isinstance(ours, type(theirs)) if own else any(k.__name__ == type(theirs).__name__ for k in type(ours).__mro__)
    )


@pytest.mark.parametrize("name", ALIKE)
def test_a_script_does_the_same(name: str) -> None:
    compare(ALIKE[name])


def compare(script: Any) -> None:
    """Runs a script with both modules, which have to return the same, or to raise errors that are alike."""
    (a, failed), (b, failed_here) = (outcome(script, *m) for m in ((theirs, their_state), (ours, our_state)))
    if failed is None:
        assert failed_here is None, failed_here
        assert_alike(a, b)
        return
    assert failed_here is not None and isinstance(failed_here, AnyshapeError), (failed, b)
    assert is_alike(failed, failed_here), (failed, failed_here, type(failed_here).__mro__)
    if str(failed).startswith("[ONNXRuntimeError]"):
        assert str(failed).split(" : ")[:3] == str(failed_here).split(" : ")[:3]


@pytest.mark.filterwarnings("ignore::UserWarning:onnxruntime")
@pytest.mark.parametrize("name", APART)
def test_known_differences(name: str) -> None:
    """Known differences are in docs/onnxruntime.md, and leave the table when they are none any more."""
    script, a, b = APART[name]
    for m, state, kind in ((theirs, their_state, a), (ours, our_state, b)):
        _, failed = outcome(script, m, state)
        assert (type(failed).__name__ if failed is not None else None) == kind, failed


def test_errors_that_are_not_alike_are_distinguished() -> None:
    assert is_alike(their_state.Fail(""), our_state.Fail("")) and is_alike(ValueError(), our_state.InvalidArgument(""))
    assert not is_alike(their_state.Fail(""), our_state.InvalidArgument("")) and not is_alike(
        TypeError(), our_state.Fail("")
    )


# --- names


def public(of: Any) -> set[str]:
    return {n for n in dir(of) if not n.startswith("_")}


CLASSES = [
    "ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "IOBinding", "InferenceSession", "ModelMetadata", "NodeArg",
    "OrtAllocatorType", "OrtArenaCfg", "OrtDevice", "OrtMemType", "OrtMemoryInfo", "OrtValue", "RunOptions", "SessionOptions",
]  # fmt: skip


def test_every_name_of_the_module_is_here_or_refused_by_name() -> None:
    modules = {n for n in public(theirs) if isinstance(getattr(theirs, n), types.ModuleType) and n != "capi"}
    names = public(theirs) - modules - {"annotations"}
    missing = {n for n in names if not hasattr(ours, n)}
    assert not missing, f"names of onnxruntime {theirs.__version__} that nothing here stands for: {sorted(missing)}"
    assert set(LACKING) <= public(theirs), "a name is refused that onnxruntime does not have"
    assert not set(LACKING) & set(ours.__all__)


@pytest.mark.parametrize("name", CLASSES)
def test_every_attribute_of_a_class_is_here_or_refused_by_name(name: str) -> None:
    instances = {
        "ModelMetadata": lambda m: session(m).get_modelmeta(), "NodeArg": lambda m: session(m).get_inputs()[0],
        "OrtArenaCfg": lambda m: m.OrtArenaCfg({}), "OrtMemoryInfo": memory_info,
    }  # fmt: skip
    if name in instances:
        a, b = (instances[name](m) for m in (theirs, ours))
    else:
        a, b = getattr(theirs, name), getattr(ours, name)
        if name in ("SessionOptions", "RunOptions"):
            a, b = a(), b()
        elif issubclass(b, Enum):
            b = next(iter(b))
    lacking = {n for n in public(a) if n not in dir(b) and n not in getattr(type(b), "__members__", ())}
    refused = {"SessionOptions": REFUSED_OPTIONS, "OrtMemoryInfo": REFUSED_INFO}.get(name, {})
    assert lacking == set(refused), lacking
    protocols = {
        n for n in dir(a) if n.startswith("__") and n.endswith("__") and not (hasattr(b, n) or hasattr(type(b), n))
    }
    assert protocols <= {"__setstate__"}, protocols  # enumerations of Python are pickled by name
    for attribute in lacking:
        with pytest.raises(our_state.NotImplemented, match=f"{name}.{attribute}: "):
            getattr(b, attribute)
        assert f"`{name}.{attribute}`" in PAGE


@pytest.mark.parametrize("name", sorted(LACKING))
def test_what_is_lacking_is_refused_by_name(name: str) -> None:
    refused = getattr(ours, name)
    assert isinstance(refused, RefusedName) and f"`{name}`" in PAGE
    for use in (lambda: refused(), lambda: refused(1, a=2), lambda: refused.anything):
        with pytest.raises(our_state.NotImplemented, match=f"anyshape.onnxruntime has no {name}: {LACKING[name]}"):
            use()


@pytest.mark.parametrize("name", sorted(n for n in public(theirs.InferenceSession) if n not in {"run"}))
def test_methods_of_a_session_have_the_same_parameters(name: str) -> None:
    import inspect

    a, b = (list(inspect.signature(getattr(m.InferenceSession, name)).parameters.values()) for m in (theirs, ours))
    if any(p.kind is p.VAR_POSITIONAL for p in a):
        return
    assert [p.name for p in a if p.default is p.empty] == [p.name for p in b if p.default is p.empty]


def test_every_error_has_its_name() -> None:
    errors = {
        n
        for n in public(their_state)
        if isinstance(getattr(their_state, n), type) and issubclass(getattr(their_state, n), Exception)
    }
    assert len(errors) > 8
    for name in errors:
        assert issubclass(getattr(our_state, name), AnyshapeError)


@pytest.mark.parametrize("name", ["SessionOptions", "RunOptions"])
def test_options_are_the_same_by_default(name: str) -> None:
    a, b = (getattr(m, name)() for m in (theirs, ours))
    for attribute in [n for n in public(a) & public(b) if not callable(getattr(a, n))]:
        x, y = getattr(a, attribute), getattr(b, attribute)
        assert getattr(x, "name", x) == getattr(y, "name", y), attribute


@pytest.mark.parametrize(
    "name", ["ExecutionMode", "ExecutionOrder", "GraphOptimizationLevel", "OrtAllocatorType", "OrtMemType"]
)
def test_enumerations_have_the_same_numbers(name: str) -> None:
    a, b = (dict(getattr(m, name).__members__) for m in (theirs, ours))
    assert {n: int(v) for n, v in a.items()} == {n: int(v) for n, v in b.items()}
    for member, x in a.items():
        y = b[member]
        assert (x.value, hash(x), str(x), repr(x), range(99, 200)[x]) == (
            y.value,
            hash(y),
            str(y),
            repr(y),
            range(99, 200)[y],
        )
        for z in (x.value, x.value + 1, float(x.value), str(x), None):
            assert ((x == z), (z == x), (x != z)) == ((y == z), (z == y), (y != z)), (member, z)
        assert [y == b[n] for n in a] == [x == other for other in a.values()]


# --- what has an effect, and what is logged


def test_what_is_ignored_is_logged_once_by_name(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_named", set())
    o = options(
        ours, enable_mem_pattern=False, inter_op_num_threads=4, use_deterministic_compute=True, intra_op_num_threads=1
    )
    o.add_session_config_entry("session.intra_op.allow_spinning", "0")
    o.add_free_dimension_override_by_name("nobody", 3)
    r = ours.RunOptions()
    r.logid = "a"
    with caplog.at_level(logging.WARNING, "anyshape.onnxruntime"):
        for _ in range(2):
            s = ours.InferenceSession(  # type: ignore[call-arg]
                DATA, o, ["CUDAExecutionProvider", ("CPUExecutionProvider", {"a": "1"})], enable_fallback=1
            )
            s.run(None, {"x": X}, r)
    said = [record.getMessage().partition(" has no effect")[0] for record in caplog.records]
    assert sorted(said) == sorted({
        "the provider CUDAExecutionProvider", "options of CPUExecutionProvider", "SessionOptions.enable_mem_pattern",
        "SessionOptions.inter_op_num_threads", "the configuration entry 'session.intra_op.allow_spinning'", "RunOptions.logid",
        "the override of the free dimension 'nobody'", "InferenceSession(enable_fallback=)",
    })  # fmt: skip


@pytest.mark.parametrize(
    "providers", [["CUDAExecutionProvider"], [("CUDAExecutionProvider", {})], ["Nobody"], "CPUExecutionProvider"]
)
def test_providers_without_a_cpu_are_refused(providers: Any) -> None:
    with pytest.raises(our_state.InvalidArgument, match=r"CPU|list of names"):
        ours.InferenceSession(DATA, providers=providers)
    s = session(ours)
    with pytest.raises(our_state.InvalidArgument):
        s.set_providers(providers)
    s.set_providers(CPU)


def test_threads_of_a_session_are_those_of_its_options() -> None:
    assert session(ours, sess_options=options(ours, intra_op_num_threads=1)).executable.options.threads == 1
    assert session(ours).executable.options.threads == 0


def test_profiles_have_runs_and_kernels_with_their_nodes(tmp_path: Path) -> None:
    s = session(ours, sess_options=options(ours, enable_profiling=True, profile_file_prefix=str(tmp_path / "p")))
    for _ in range(2):
        s.run(None, {"x": X})
    assert s.get_profiling_start_time_ns() > 0
    path = Path(s.end_profiling())
    events = json.loads(path.read_text())
    assert path.parent == tmp_path and path.name.startswith("p_20")
    assert [e["name"] for e in events if e["cat"] == "Session"] == ["model_run"] * 2
    kernels = [e for e in events if e["cat"] == "Node"]
    assert (
        len(kernels) >= 2
        and all("Relu 'act'" in e["args"]["nodes"] for e in kernels)
        and all(e["ph"] == "X" for e in events)
    )
    assert s.end_profiling() == "" and s.run(None, {"x": X})[0].shape == X.shape
    gone = session(
        ours, sess_options=options(ours, enable_profiling=True, profile_file_prefix=str(tmp_path / "no" / "p"))
    )
    with pytest.raises(our_state.RuntimeException, match="the profile cannot be written"):
        gone.end_profiling()


def test_the_optimised_model_is_written(tmp_path: Path) -> None:
    path = tmp_path / "o.onnx"
    session(ours, sess_options=options(ours, optimized_model_filepath=str(path)))
    np.testing.assert_array_equal(
        theirs.InferenceSession(path, providers=CPU).run(None, {"x": X})[0], session(ours).run(None, {"x": X})[0]
    )


def test_a_model_for_unequal_sizes_of_one_name_is_compiled_once_and_named_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "_named", set())
    s = session(ours, SAME)
    s.run(None, {"x": X[0], "w": X[1]})
    assert s._independent is None and not caplog.text
    s.run(None, {"x": X[0], "w": X[1, :1]})
    first = s._independent
    s.run(None, {"x": X[0, :1], "w": X[1]})
    assert s._independent is first is not None
    assert caplog.text.count("the model names dims of several inputs n") == 1


def test_a_run_on_unequal_sizes_that_is_stopped_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The words are those of what ended the run, and not of the sizes for which the model was compiled again."""

    def stopped(*arguments: Any) -> Any:
        raise Cancelled("stopped")

    s = session(ours, SAME)
    with pytest.raises(our_state.Fail, match="dim 0 must be n"):
        s.run(None, {"x": X[0], "w": X[1, :3]})
    monkeypatch.setattr(s, "_independent", types.SimpleNamespace(run=stopped))
    with pytest.raises(our_state.Fail, match="terminate flag"):
        s.run(None, {"x": X[0], "w": X[1, :1]})


def test_overrides_by_denotation() -> None:
    m = onnx.ModelProto()
    m.CopyFrom(CHAIN)
    m.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    for ort in (theirs, ours):
        o = ort.SessionOptions()
        o.add_free_dimension_override_by_denotation("DATA_BATCH", 2)
        assert session(ort, m, sess_options=o).get_inputs()[0].shape == [2, 4]
    m.graph.input[0].type.tensor_type.shape.dim[0].ClearField("dim_param")
    with pytest.raises(our_state.NotImplemented, match="one of them has no name"):
        session(ours, m, sess_options=o)


def test_defaults_are_overridden_from_threads_and_compiled_once() -> None:
    s = session(ours, DEFAULT)
    results: list[float] = []
    threads = [
        threading.Thread(
            target=lambda k=k: results.append(s.run(None, {"x": X[0], "w": np.full(1, k, np.float32)})[0][0])
        )
        for k in range(6)
    ]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(results) == [X[0, 0] + k for k in range(6)] and len(s._overriding) == 1


def endless() -> onnx.ModelProto:
    """Adds for hours."""
    body = onnx.helper.make_graph(
        [node("Add", "a x", "b"), node("Identity", "c", "d")], "body",
        [tensor("i", [], 7), tensor("c", [], 9), tensor("a", [1])], [tensor("d", [], 9), tensor("b", [1])],
    )  # fmt: skip
    constants = {"trip": np.array(1 << 40), "go": np.array(True)}
    return model([node("Loop", "trip go x", "y", body=body)], [tensor("x", [1])], "y", constants)


def test_a_run_is_stopped_from_another_thread_and_others_go_on() -> None:
    s, stop, other = ours.InferenceSession(endless().SerializeToString()), ours.RunOptions(), ours.RunOptions()
    x, said = np.ones(1, np.float32), []

    def run(own: Any) -> None:
        try:
            s.run(None, {"x": x}, own)
        except our_state.Fail as e:
            said.append((own, str(e)))

    threads = [threading.Thread(target=run, args=(o,)) for o in (stop, other)]
    for t in threads:
        t.start()
    time.sleep(0.3)
    assert all(t.is_alive() for t in threads)
    for t, own in zip(threads, (stop, other)):
        assert t.is_alive(), "a run was stopped by the options of another"
        own.terminate = True
        t.join(10)
        assert not t.is_alive() and said[-1][0] is own and "terminate flag" in said[-1][1]
    with pytest.raises(our_state.Fail, match="terminate flag"):
        session(ours).run(None, {"x": X}, stop)
    stop.terminate = False
    assert session(ours).run(None, {"x": X}, stop)[0].shape == X.shape


# --- patching

CODE = """
import sys
import anyshape.onnxruntime
with anyshape.onnxruntime.patch() as patched:
    import onnxruntime as ort
    from onnxruntime import InferenceSession, SessionOptions
    from onnxruntime.capi import _pybind_state as C
    from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, OrtValue
    from onnxruntime.capi.onnxruntime_inference_collection import IOBinding
    assert ort is anyshape.onnxruntime and C.OrtValue is OrtValue is ort.OrtValue and IOBinding is ort.IOBinding
    try:
        InferenceSession(open(sys.argv[1], "rb").read()).run(["nobody"], {})
    except InvalidArgument as e:
        assert isinstance(e, anyshape.AnyshapeError)
    else:
        raise AssertionError
    from onnxruntime.quantization import calibrate
    assert calibrate.onnxruntime is ort and "site-packages" in calibrate.__file__
    for name in ("onnxruntime.session", "onnxruntime.capi.build_and_package_info", "onnxruntime.nobody"):
        try:
            __import__(name)
        except ModuleNotFoundError as e:
            assert e.name == name and "while anyshape.onnxruntime stands for onnxruntime" in str(e)
        else:
            raise AssertionError(name)
import onnxruntime
import onnxruntime.quantization
assert onnxruntime.quantization.calibrate.onnxruntime is onnxruntime
assert onnxruntime is not ort and onnxruntime.__file__ != ort.__file__
"""


def test_patched_code_runs_on_anyshape_and_is_itself_again(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(DATA)
    subprocess.run([sys.executable, "-c", CODE, str(tmp_path / "m.onnx")], check=True)
    before = sys.modules["onnxruntime"]
    patched = ours.patch()
    assert sys.modules["onnxruntime"] is ours
    patched.undo()
    assert sys.modules["onnxruntime"] is before is theirs
