"""Writes the folder by which `anyshape diff` reproduces a difference: a model, its inputs, both results, and a script that compares again.

In: a model and arrays. Out: a folder with model.onnx, inputs/*.npy, anyshape.npy, onnxruntime.npy or exact.npy, and replay.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.errors import AnyshapeError
from anyshape.files import replacing, write_plain

Arrays = Mapping[str, NDArray[Any]]


def alone(
    model: Any, node: Any, values: Arrays, captured: Callable[[Any], Iterable[str]]
) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Builds a model of one node, and collects the arrays it reads. Weights stay weights, since constants are compiled differently."""
    import onnx
    from onnx import helper

    weights = {t.name: t for t in model.graph.initializer}
    inner = {name for a in node.attribute for g in (a.g, *a.graphs) if g.node for name in captured(g)}
    names = [n for n in dict.fromkeys([*node.input, *sorted(inner)]) if n]
    reads = {n: np.asarray(values[n]) for n in names if n not in weights and n in values}
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in reads.items()
    ]
    outputs = [onnx.ValueInfoProto(name=n) for n in node.output if n]
    graph = helper.make_graph([node], "node", inputs, outputs, [weights[n] for n in names if n in weights])
    node_model = helper.make_model(graph, opset_imports=model.opset_import, functions=model.functions)
    node_model.ir_version = model.ir_version
    return node_model, reads


def write(
    folder: Path,
    model: Any,
    inputs: Arrays,
    ours: NDArray[Any],
    theirs: NDArray[Any],
    name: str,
    args: argparse.Namespace,
) -> None:
    """Writes the folder, which is created if it does not exist. Raises AnyshapeError if it cannot be written."""
    files = {n: f"{k}.npy" for k, n in enumerate(inputs)}
    arrays = {folder / "inputs" / files[n]: a for n, a in inputs.items()}
    arrays |= {folder / "anyshape.npy": ours, folder / f"{args.beside}.npy": theirs}
    try:
        (folder / "inputs").mkdir(parents=True, exist_ok=True)
        for old in (folder / "inputs").glob("*.npy"):
            old.unlink()
        write_plain(folder / "model.onnx", model.SerializeToString())
        for path, a in arrays.items():
            with replacing(path) as file:
                np.save(file, a)
        write_plain(folder / "replay.py", script(files, name, args).encode())
    except OSError as e:
        raise AnyshapeError(f"{folder} cannot be written: {e.filename or ''} {e.strerror or e}") from None


def script(files: Mapping[str, str], name: str, args: argparse.Namespace) -> str:
    """Writes the script for one result: it runs the model in what `anyshape diff` ran."""
    precision = "" if args.precision is None else f", precision={args.precision!r}"
    imported, theirs = BESIDE[args.beside]
    return SCRIPT.format(
        files=files,
        name=name,
        precision=precision,
        beside=args.beside,
        imported=imported,
        theirs=theirs.format(name=name),
    )


BESIDE = {
    "onnxruntime": (
        "import onnxruntime\n",
        """session = onnxruntime.InferenceSession(str(here / "model.onnx"), providers=["CPUExecutionProvider"])
(theirs,) = session.run([{name!r}], feed)""",
    ),
    "exact": (
        "",
        """exact = anyshape.compile(str(here / "model.onnx"), precision="exact")
theirs = dict(zip(exact.output_names, exact.run(feed)))[{name!r}]""",
    ),
}
SCRIPT = '''"""Runs model.onnx on the same inputs in anyshape and beside it, in {beside}: python replay.py"""

from pathlib import Path

import numpy as np
{imported}
import anyshape

here = Path(__file__).parent
feed = {{name: np.load(here / "inputs" / file) for name, file in {files!r}.items()}}
exe = anyshape.compile(str(here / "model.onnx"){precision})
ours = dict(zip(exe.output_names, exe.run(feed)))[{name!r}]
{theirs}
print("anyshape:", ours, "{beside}:", theirs, sep="\\n")
same = ours.dtype == theirs.dtype and ours.shape == theirs.shape
print("equal" if same and np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f") else "not equal")
'''
