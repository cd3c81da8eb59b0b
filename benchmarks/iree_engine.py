"""IREE behind the words of `engines.py`: a model imported and compiled ahead for this processor, run on the calling thread.

IREE compiles once for unknown sizes, like anyshape, so it is the peer to name where shape arithmetic or rows are what counts. It does not
import every model (`benchmarks.models` says which it is run on) and collapses on some dynamic axes, so it is no peer everywhere.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

OPSET = "17"
"""What older models are converted to: IREE's importer knows few versions of an operator."""

Invoke = Callable[[Sequence[Any]], list[Any]]


def compiled(path: Path) -> tuple[list[str], Invoke]:
    """The names of the inputs in order, and a call that takes them as arrays (host or device) and gives device arrays.

    Raises subprocess.CalledProcessError for what the importer refuses.
    """
    import iree.compiler.tools as compiler
    import iree.runtime as runtime
    import onnx

    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder) / "module.mlir"
        command = ["-m", "iree.compiler.tools.import_onnx", str(path), "-o", str(module), "--opset-version", OPSET]
        subprocess.run([sys.executable, *command], check=True, capture_output=True)
        flags = ["--iree-llvmcpu-target-cpu=host"]
        code = compiler.compile_file(str(module), target_backends=["llvm-cpu"], input_type="onnx", extra_args=flags)
    config = runtime.Config("local-sync")
    bound = runtime.load_vm_module(runtime.VmModule.copy_buffer(config.vm_instance, code), config)
    function = bound[next(n for n in bound.vm_module.function_names if "$" not in n and not n.startswith("__"))]
    graph = onnx.load(path, load_external_data=False).graph
    weights = {w.name for w in graph.initializer}

    def invoke(arguments: Sequence[Any]) -> list[Any]:
        results = function(*arguments)
        return list(results) if isinstance(results, tuple) else [results]

    return [i.name for i in graph.input if i.name not in weights], invoke


def on_device(array: Any) -> Any:
    """An argument that a call need not copy again."""
    import iree.runtime as runtime

    return runtime.asdevicearray(runtime.get_device("local-sync"), array)


def to_host(array: Any) -> Any:
    return np.asarray(array.to_host())
