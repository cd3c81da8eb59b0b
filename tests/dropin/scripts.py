"""Scripts that are written for onnxruntime: functions of the module, run with onnxruntime and with anyshape.onnxruntime.

Each returns what both must give alike, or raises what both must raise alike. `state` is the module's capi.onnxruntime_pybind11_state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import onnx

from tests.frontends.models import chain, model, node, tensor

CPU = ["CPUExecutionProvider"]
X = np.arange(8, dtype=np.float32).reshape(2, 4) - 3


def typed(m: onnx.ModelProto, shape: list[Any], kind: int = 1) -> onnx.ModelProto:
    """Gives a model the version that onnxruntime reads, and the type of y."""
    m.ir_version = 8
    m.graph.output[0].CopyFrom(tensor("y", shape, kind))
    return m


CHAIN = typed(chain(), ["batch", 4])
CHAIN.producer_name, CHAIN.model_version, CHAIN.doc_string, CHAIN.domain = "tests", 7, "a chain", "acme"
CHAIN.graph.doc_string = "relu(x + w) + x"
CHAIN.metadata_props.add(key="k", value="v")
DATA = CHAIN.SerializeToString()
SUM = typed(model([node("Add", "x w", "y")], [tensor("x", ["n"]), tensor("w", ["m"])], "y"), ["n"])
SAME = typed(model([node("Mul", "x w", "y")], [tensor("x", ["n"]), tensor("w", ["n"])], "y"), ["n"])
JOINED = typed(
    model([node("Concat", "x w", "y", axis=0)], [tensor("x", ["past"]), tensor("w", ["new"])], "y"), ["past + new"]
)
DEFAULT = typed(
    model([node("Add", "x w", "y")], [tensor("x", ["n"]), tensor("w", [1])], "y", {"w": np.ones(1, np.float32)}), ["n"]
)
GATHER = typed(model([node("Gather", "x i", "y")], [tensor("x", ["n"]), tensor("i", ["k"], 7)], "y"), ["k"])
TEXTS = typed(model([node("Identity", "x", "y")], [tensor("x", ["n"], 8)], "y"), ["n"], 8)
SPLIT = model([node("SplitToSequence", "x", "y", axis=0, keepdims=0)], [tensor("x", [3, "n"])], "y")
SPLIT.ir_version = 8
SPLIT.graph.output[0].CopyFrom(onnx.helper.make_tensor_sequence_value_info("y", 1, None))
Script = Callable[[Any, Any], Any]


def unfit(dtype: Any, n: int) -> onnx.ModelProto:
    """Adds a constant to f32[3]."""
    return typed(model([node("Add", "x w", "y")], [tensor("x", [3])], "y", {"w": np.ones(n, dtype)}), [3])


def session(ort: Any, proto: onnx.ModelProto = CHAIN, **keywords: Any) -> Any:
    return ort.InferenceSession(proto.SerializeToString(), providers=CPU, **keywords)


def options(ort: Any, **values: Any) -> Any:
    o = ort.SessionOptions()
    for name, value in values.items():
        setattr(o, name, value)
    return o


def named(ort: Any, **sizes: int) -> Any:
    """Options that give names of dims their sizes."""
    o = ort.SessionOptions()
    for name, n in sizes.items():
        o.add_free_dimension_override_by_name(name, n)
    return o


def bound(ort: Any, *, shape: tuple[int, ...] = (2, 4), feed: bool = True, output: bool = True) -> Any:
    """Writes into the caller's memory."""
    s, y = session(ort), np.zeros(shape, np.float32)
    binding = s.io_binding()
    if feed:
        binding.bind_input("x", "cpu", 0, np.float32, X.shape, X.ctypes.data)
    if output:
        binding.bind_output("y", "cpu", 0, np.float32, shape, y.ctypes.data)
    s.run_with_iobinding(binding)
    return y, [v.numpy() for v in binding.get_outputs()], binding.copy_outputs_to_cpu()


def rebound(ort: Any) -> Any:
    s, place = session(ort), ort.OrtValue.ortvalue_from_numpy(np.zeros((2, 4), np.float32))
    binding = ort.IOBinding(s)
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    s.run_with_iobinding(binding)
    first = binding.copy_outputs_to_cpu()
    binding.clear_binding_outputs()
    binding.bind_ortvalue_output("y", place)
    doubled = ort.OrtValue.ortvalue_from_numpy(X * 2)  # whose memory onnxruntime does not keep alive
    binding.bind_ortvalue_input("x", doubled)
    binding.synchronize_inputs()
    s.run_with_iobinding(binding, ort.RunOptions())
    binding.synchronize_outputs()
    return first, place.numpy().copy()  # onnxruntime gives a view, which its value does not outlive


def asynchronous(ort: Any, feed: Any = None) -> Any:
    ended, calls = threading.Event(), []

    def callback(*arguments: Any) -> None:
        calls.append(arguments)
        ended.set()

    session(ort, SUM).run_async(None, feed or {"x": X[0], "w": X[1]}, callback, {"user": 1})
    assert ended.wait(20)
    ((results, data, said),) = calls
    return results, data, bool(said)


def value_of(ort: Any, v: Any) -> Any:
    return (v.data_type(), list(v.shape()), v.device_name(), v.element_type(), v.has_value(), v.is_tensor(), v.is_sparse_tensor(),
            v.is_tensor_sequence(), v.tensor_size_in_bytes(), v.numpy())  # fmt: skip


def updated(ort: Any, new: Any) -> Any:
    memory = np.zeros((2, 4), np.float32)
    v = ort.OrtValue.ortvalue_from_numpy(memory)
    v.update_inplace(new)
    return memory, v.numpy(), v.data_ptr() == memory.ctypes.data


def stopped(ort: Any) -> Any:
    o = ort.RunOptions()
    o.terminate = True
    return session(ort).run(None, {"x": X}, o)


def overridden(ort: Any) -> Any:
    s, x = session(ort, DEFAULT), np.ones(2, np.float32)
    return ([(i.name, i.type, i.shape) for i in (*s.get_inputs(), *s.get_overridable_initializers())],
            s.run(None, {"x": x}), s.run(None, {"x": x, "w": np.full(1, 5, np.float32)}), s.run(None, {"x": x}))  # fmt: skip


def sized(ort: Any, x: Any, *, name: str = "batch") -> Any:
    o = ort.SessionOptions()
    o.add_free_dimension_override_by_name(name, 2)
    s = session(ort, sess_options=o)
    return s.get_inputs()[0].shape, s.run(["y"], {"x": x})


def entries(ort: Any, o: Any) -> Any:
    add, get = (
        getattr(o, f"{kind}_{'run' if isinstance(o, ort.RunOptions) else 'session'}_config_entry")
        for kind in ("add", "get")
    )
    add("some.key", "value")
    return get("some.key")


def metadata(ort: Any) -> Any:
    m = session(ort).get_modelmeta()
    return (
        m.custom_metadata_map,
        m.description,
        m.domain,
        m.graph_description,
        m.graph_name,
        m.producer_name,
        m.version,
    )


BF16 = 16
ALIKE: dict[str, Script] = {
    "run": lambda ort, _: session(ort).run(None, {"x": X}),
    "one output": lambda ort, _: session(ort).run(["y"], {"x": X}),
    "an output twice": lambda ort, _: session(ort).run(["y", "y"], {"x": X}),
    "no names": lambda ort, _: session(ort).run([], {"x": X}),
    "options of a run": lambda ort, _: session(ort).run(None, {"x": X}, ort.RunOptions()),
    "a list": lambda ort, _: session(ort).run(None, {"x": [[1, 2, 3, 4]]}),
    "Fortran's order": lambda ort, _: session(ort).run(None, {"x": np.asfortranarray(X)}),
    "a value": lambda ort, _: session(ort).run(None, {"x": ort.OrtValue.ortvalue_from_numpy(X)}),
    "an empty batch": lambda ort, _: session(ort).run(None, {"x": X[:0]}),
    "texts": lambda ort, _: session(ort, TEXTS).run(None, {"x": np.array(["a", "bc"], object)}),
    "a sequence": lambda ort, _: session(ort, SPLIT).run(None, {"x": np.ones((3, 2), np.float32)}),
    "inputs": lambda ort, _: [(i.name, i.type, i.shape, str(i)) for i in session(ort).get_inputs()],
    "outputs": lambda ort, _: [(i.name, i.type, i.shape) for i in session(ort).get_outputs()],
    "outputs with formulas": lambda ort, _: [(i.name, i.type, i.shape) for i in session(ort, JOINED).get_outputs()],
    "one name for unequal sizes": lambda ort, _: [
        session(ort, SAME).run(None, {"x": X[0], "w": X[1, :n]}) for n in (4, 1)
    ],
    "one name for sizes that do not broadcast": lambda ort, _: session(ort, SAME).run(None, {"x": X[0], "w": X[1, :3]}),
    "one name, of which the size is given": lambda ort, _: session(
        ort, SAME, sess_options=named(ort, n=4)
    ).run(None, {"x": X[0], "w": X[1]}),
    "providers": lambda ort, _: (session(ort).get_providers(), session(ort).get_provider_options(), ort.get_device()),
    "providers with options": lambda ort, _: ort.InferenceSession(DATA, providers=[("CPUExecutionProvider", {})]).get_providers(),
    "options of providers": lambda ort, _: ort.InferenceSession(DATA, providers=CPU, provider_options=[{}]).get_providers(),
    "no providers": lambda ort, _: ort.InferenceSession(DATA, providers=[]).get_providers(),
    "metadata": lambda ort, _: metadata(ort),
    "no defaults": lambda ort, _: session(ort).get_overridable_initializers(),
    "no profile": lambda ort, _: session(ort).end_profiling(),
    "overridden": lambda ort, _: overridden(ort),
    "sizes": lambda ort, _: sized(ort, X),
    "sizes of no dim": lambda ort, _: sized(ort, X, name="nobody"),
    "bound memory": lambda ort, _: bound(ort),
    "bound again": lambda ort, _: rebound(ort),
    "asynchronous": lambda ort, _: asynchronous(ort),
    "asynchronous failure": lambda ort, _: asynchronous(ort, {"x": X[0], "w": X[0, :3]}),
    "values in and out": lambda ort, _: [
        value_of(ort, v) for v in session(ort).run_with_ort_values(["y"], {"x": ort.OrtValue.ortvalue_from_numpy(X)})
    ],
    "a new value": lambda ort, _: ort.OrtValue.ortvalue_from_shape_and_type([2, 3], np.float64).data_type(),
    "a new value by number": lambda ort, _: ort.OrtValue.ortvalue_from_shape_and_type([2, 3], 7).data_type(),
    "other element types": lambda ort, _: [
        value_of(ort, ort.OrtValue.ortvalue_from_numpy(np.ones(3, t)))[:4] for t in ("bool", "i1", "u2", "i8", "f2", "f8")
    ],
    "by ONNX's number": lambda ort, _: ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ones(3, np.uint16), BF16).data_type(),
    "values as arrays": lambda ort, _: [
        form(ort.OrtValue.ortvalue_from_numpy(X)) for form in (np.asarray, np.array, np.sum, partial(np.asarray, dtype=np.int64))
    ],
    "a value for an array": lambda ort, _: session(ort).run(None, {"x": np.array(ort.OrtValue.ortvalue_from_numpy(X))}),
    "updated": lambda ort, _: updated(ort, X),
    "dlpack": lambda ort, _: np.from_dlpack(ort.OrtValue.ortvalue_from_numpy(X)),
    "from dlpack": lambda ort, _: ort.OrtValue.from_dlpack(X).numpy(),
    "from a capsule of dlpack": lambda ort, _: ort.OrtValue.from_dlpack(X.__dlpack__()).numpy(),
    "from a capsule, the same memory": lambda ort, _: ort.OrtValue.from_dlpack(X.__dlpack__()).data_ptr() == X.ctypes.data,
    "device": lambda ort, _: ort.OrtDevice.make("cpu", 0).device_type(),
    "threads": lambda ort, _: session(ort, sess_options=options(ort, intra_op_num_threads=1)).run(None, {"x": X}),
    "entries": lambda ort, _: (entries(ort, ort.SessionOptions()), entries(ort, ort.RunOptions())),
    "seed": lambda ort, _: ort.set_seed(3),
    "severity": lambda ort, _: ort.set_default_logger_severity(4),
    "levels": lambda ort, _: [int(v.value) for v in dict(ort.GraphOptimizationLevel.__members__).values()],
    "session options": lambda ort, _: session(ort, sess_options=options(ort, logid="a")).get_session_options().logid,
    "as a truth": lambda ort, _: options(ort, enable_profiling=0).enable_profiling,
    # what is refused
    "from dlpack of a number": lambda ort, _: ort.OrtValue.from_dlpack(5),
    "a capsule twice": lambda ort, _: [ort.OrtValue.from_dlpack(c) for c in [X.__dlpack__()] * 2],
    "no file": lambda ort, _: ort.InferenceSession("no such file.onnx", providers=CPU),
    "a folder": lambda ort, _: ort.InferenceSession("/", providers=CPU),
    "no model": lambda ort, _: ort.InferenceSession(b"nonsense", providers=CPU),
    "nothing": lambda ort, _: ort.InferenceSession(b"", providers=CPU),
    "a number": lambda ort, _: ort.InferenceSession(5, providers=CPU),
    "None": lambda ort, _: ort.InferenceSession(None, providers=CPU),
    "an operator nobody knows": lambda ort, _: session(ort, typed(model([node("Nope", "x", "y")], [tensor("x", ["n"])], "y"), ["n"])),
    "a value nobody makes": lambda ort, _: session(ort, typed(model([node("Relu", "z", "y")], [tensor("x", ["n"])], "y"), ["n"])),
    "shapes that never fit": lambda ort, _: session(ort, unfit(np.float32, 4)),
    "dtypes that never fit": lambda ort, _: session(ort, unfit(np.int64, 3)),
    "another name": lambda ort, _: session(ort).run(None, {"q": X}),
    "one name more": lambda ort, _: session(ort).run(None, {"x": X, "q": X}),
    "no input": lambda ort, _: session(ort).run(None, {}),
    "another rank": lambda ort, _: session(ort).run(None, {"x": X[0]}),
    "another size": lambda ort, _: session(ort).run(None, {"x": X[:, :3]}),
    "another dtype": lambda ort, _: session(ort).run(None, {"x": X.astype(np.float64)}),
    "no value": lambda ort, _: session(ort).run(None, {"x": None}),
    "a text": lambda ort, _: session(ort).run(None, {"x": "a"}),
    "another output": lambda ort, _: session(ort).run(["z"], {"x": X}),
    "a name for names": lambda ort, _: session(ort).run("y", {"x": X}),
    "run options of a wrong kind": lambda ort, _: session(ort).run(None, {"x": X}, 5),
    "stopped": lambda ort, _: stopped(ort),
    "sizes that a run does not fit": lambda ort, _: session(ort, SUM).run(None, {"x": X[0], "w": X[0, :3]}),
    "a size that was overridden": lambda ort, _: sized(ort, X[:1]),
    "asynchronous without input": lambda ort, _: session(ort).run_async(None, {}, lambda *_: None, None),
    "bound to another shape": lambda ort, _: bound(ort, shape=(3, 4)),
    "bound without input": lambda ort, _: bound(ort, feed=False),
    "bound without output": lambda ort, _: bound(ort, output=False),
    "bound to another name": lambda ort, _: session(ort).io_binding().bind_cpu_input("q", X),
    "a value of texts": lambda ort, _: ort.OrtValue.ortvalue_from_numpy(np.array(["a"])),
    "a value of a list": lambda ort, _: ort.OrtValue.ortvalue_from_numpy([1, 2]),
    "a value elsewhere": lambda ort, _: ort.OrtValue.ortvalue_from_numpy(X, "cuda", 0),
    "updated by less": lambda ort, _: updated(ort, X[:1]),
    "no entry": lambda ort, _: ort.SessionOptions().get_session_config_entry("a"),
    "an entry of a wrong kind": lambda ort, _: ort.SessionOptions().add_session_config_entry("a", 1),
    "an option nobody knows": lambda ort, _: options(ort, nobody_knows=1),
    "an option of a wrong kind": lambda ort, _: options(ort, logid=3),
    "threads of a wrong kind": lambda ort, _: options(ort, intra_op_num_threads="2"),
    "a level of a wrong kind": lambda ort, _: options(ort, graph_optimization_level=99),
    "a severity beyond": lambda ort, _: ort.set_default_logger_severity(9),
    "operators of a library": lambda ort, _: ort.SessionOptions().register_custom_ops_library("/nowhere/ops.so"),
    "arguments of options": lambda ort, _: ort.SessionOptions(1),
}  # fmt: skip
APART: dict[str, tuple[Script, str | None, str | None]] = {
    "an index out of range": (
        lambda ort, _: session(ort, GATHER).run(None, {"x": X[0], "i": np.array([9])}), "InvalidArgument", "Fail",
    ),
    "providers without a CPU": (lambda ort, _: ort.InferenceSession(DATA, providers=["CUDAExecutionProvider"]), None, "InvalidArgument"),
    "a name for providers": (lambda ort, _: ort.InferenceSession(DATA, providers="CPUExecutionProvider"), None, "InvalidArgument"),
    "fewer options than providers": (
        lambda ort, _: ort.InferenceSession(DATA, providers=CPU, provider_options=[{}, {}]), None, "InvalidArgument",
    ),
    "options of a wrong kind": (lambda ort, _: ort.InferenceSession(DATA, 5, providers=CPU), "AttributeError", "WrongKind"),
    "no feed": (lambda ort, _: session(ort).run(None, None), "AttributeError", "WrongKind"),
}  # fmt: skip
"""Scripts that end unlike: what onnxruntime raises, and what is raised here; None for what runs"""
