"""Calls one op from Python, C, onnxruntime, PyTorch, Node and a page in a browser, as far as their tools are here, at the same shapes:

    python examples/one_op/run.py FOLDER

In: the op's spec, and an empty folder for what is built. Out: a line for each shape; an error where two of them differ.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.vm.export import own_levels
from anyshape_gen.cli import main as generate
from anyshape_testing.exports.c_programs import Toolchain, toolchain
from anyshape_testing.exports.javascript import Engine, Session, command

HERE = Path(__file__).parent
SHAPES = ((1, 1), (2, 3), (7, 64), (33, 5), (0, 4), (128, 129))
Array = NDArray[np.float32]
Call = Callable[[Array, Array], Array]


def install(folder: Path) -> None:
    """Writes the package of the op, and installs its wheel in a folder of the path: anyshape finds the op there."""
    words = ["--specs", str(HERE / "specs"), "--package", "unit_rows_torch", "--out", str(folder / "out")]
    level = own_levels().levels[0].name if shutil.which("cc") is not None else "none"
    assert generate(["--target", "torch", *words, "--kernels", level, "--ranks", "1:2"]) == 0
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(folder / "site"), *map(str, (folder / "out").glob("*.whl"))], check=True)
    sys.path.insert(0, str(folder / "site"))


def in_python() -> Call:
    import anyshape

    x, scale = anyshape.input("x", "f32[rows, n]"), anyshape.input("scale", "f32[n]")
    run: Call = anyshape.compile(anyshape.function([x, scale], anyshape.ops.unit_rows(x, scale)))
    return run


def export(folder: Path, *words: str) -> None:
    """Exports the op for f32."""
    from anyshape.cli.main import main as anyshape_command

    inputs = ["--input", "x=f32[rows, n]", "--input", "scale=f32[n]"]
    assert anyshape_command(["export", "--op", "unit_rows", *inputs, *words, "--out", str(folder)]) == 0


def in_c(tools: Toolchain, folder: Path) -> Call:
    """The C program, for this machine or by what runs programs of another target."""
    export(folder, "--target", tools.target)
    words = [*tools.compile, "-I", str(folder), str(HERE / "unit_rows.c"), str(folder / "unit_rows.o")]
    subprocess.run([*words, "-lm", "-o", str(folder / "program")], check=True)

    def run(x: Array, scale: Array) -> Array:
        data = np.array(x.shape, np.int64).tobytes() + x.tobytes() + scale.tobytes()
        done = subprocess.run([*tools.run, str(folder / "program")], input=data, capture_output=True, check=True)
        return np.frombuffer(done.stdout, np.float32).reshape(x.shape)

    return run


def in_javascript(session: Session) -> Call:
    """The module of WebAssembly, by the function of the JavaScript module that the export wrote beside it."""
    return lambda x, scale: session.call("unit_rows", {"x": x, "scale": scale}, {"y": x.dtype})["y"]


def in_onnxruntime(folder: Path) -> Call:
    """A session of onnxruntime, of a model with the op as a custom op."""
    import onnxruntime
    from onnx import TensorProto, helper

    export(folder, "--for", "onnxruntime")
    shapes = {"x": ["rows", "n"], "scale": ["n"], "y": ["rows", "n"]}
    x, scale, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items())
    node = helper.make_node("unit_rows", ["x", "scale"], ["y"], domain="anyshape")
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("anyshape", 1)]
    model = helper.make_model(helper.make_graph([node], "model", [x, scale], [y]), opset_imports=opsets, ir_version=9)
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(str(folder / "libunit_rows.so"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda x, scale: session.run(None, {"x": x, "scale": scale})[0]


def in_torch() -> Call:
    """A model of torch with the op in it, compiled for all sizes. Each call compares gradients with those of torch's own operators."""
    import torch
    import unit_rows_torch  # `install` installs it

    class Model(torch.nn.Module):
        def forward(self, x: Any, scale: Any) -> Any:
            return unit_rows_torch.unit_rows(x * 1, scale)

    torch.fx.experimental._config.backed_size_oblivious = True  # sizes of 0 and 1 are sizes as any other
    compiled = torch.compile(Model(), fullgraph=True, dynamic=True, backend="aot_eager")

    def run(x: Array, scale: Array) -> Array:
        a, b = (torch.tensor(v, requires_grad=True) for v in (x, scale))
        result, expected = compiled(a, b), a / a.square().sum(-1, keepdim=True).sqrt() * b
        slopes = (torch.autograd.grad(y.cos().sum(), (a, b)) for y in (result, expected))
        torch.testing.assert_close(*slopes, rtol=1e-4, atol=1e-5)
        return result.detach().numpy()

    return run


TARGETS = {"C": "x86-64-v2", "C in WASI": "wasm32"}
ENGINES: dict[str, Engine] = {"Node": "node", "a browser": "browser"}


def places(folder: Path, processes: ExitStack) -> dict[str, Call]:
    """Everywhere that the op can be called from here; processes that calls go to end with the stack."""
    calls = {"Python": in_python()}
    for name, target in TARGETS.items():
        tools = toolchain(target)
        if tools is not None:
            calls[name] = in_c(tools, folder / target)
    engines = {name: engine for name, engine in ENGINES.items() if command(engine) is not None}
    if engines:
        export(folder / "javascript", "--target", "wasm32")
    for name, engine in engines.items():
        calls[name] = in_javascript(processes.enter_context(Session(engine, folder / "javascript")))
    if find_spec("onnxruntime") is not None and toolchain("x86-64-v2") is not None:
        calls["onnxruntime"] = in_onnxruntime(folder / "onnxruntime")
    if find_spec("torch") is not None:
        calls["PyTorch"] = in_torch()
    return calls


def main(folder: Path) -> None:
    install(folder)
    with ExitStack() as processes:
        calls = places(folder, processes)
        rng = np.random.default_rng(0)
        for rows, n in SHAPES:
            x, scale = (rng.standard_normal(shape).astype(np.float32) for shape in ((rows, n), (n,)))
            expected = x / np.sqrt(np.sum(x * x, -1, keepdims=True)) * scale
            for name, call in calls.items():
                np.testing.assert_allclose(call(x, scale), expected, rtol=2e-6, atol=1e-6, err_msg=name)
            print(f"{rows} x {n}: the same in {', '.join(calls)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
