"""Exported models beside C that emx-onnx-cgen generates and beside onnxruntime-web: bytes, and time per call.

    python -m benchmarks.exported_peers --emx COMMAND --web FOLDER [--level x86-64-v4] [--samples 0] [MODEL ...]

COMMAND is that of emx-onnx-cgen (PyPI), in an environment of its own; FOLDER is the package onnxruntime-web (npm), whose modules Node runs
on one thread. Either may be left out. Ours is exported once, for any sizes, for a level of x86-64 (x86-64-v3, with AVX2, unless `--level`
says another) and for WebAssembly; C is generated for the sizes of each line and compiled by `cc -O3` for the same level. Bytes are those
of code and of constants that are no weights in a file; those of onnxruntime-web are its module and the JavaScript that Node loads.
`--samples 0` times nothing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

import anyshape
from anyshape.vm.executable.entry import function_of
from anyshape.vm.export import Export, export, export_target
from anyshape_testing.exports.javascript import written_tensor
from anyshape_testing.exports.loaded import Exported
from benchmarks.exported import caller, least
from benchmarks.models import load

Array = NDArray[Any]
Arrays = dict[str, Array]
USUAL = ("mlp", "lstm", "bert_mini")
SAMPLES = 15
WEB = ("ort-wasm-simd-threaded.wasm", "ort-wasm-simd-threaded.mjs", "ort.node.min.mjs")
DRIVER = Path(__file__).with_suffix(".mjs")


def sections(path: Path) -> int:
    """Bytes of the code and the constants of an object or a library."""
    row = subprocess.run(["size", str(path)], capture_output=True, text=True, check=True).stdout.splitlines()[1].split()
    return int(row[0]) + int(row[1])


def generated(emx: str, level: str, model: Path, inputs: Arrays, folder: Path) -> tuple[ctypes.CDLL, int]:
    """The C that emx-onnx-cgen generates for a call's sizes, as a library that has read its weights, and the bytes of its code."""
    fixed = onnx.load(str(model))
    for value in fixed.graph.input:
        for dim, n in zip(value.type.tensor_type.shape.dim, inputs[value.name].shape, strict=True):
            dim.dim_value = n
    onnx.save(fixed, str(folder / "fixed.onnx"))
    library = folder / f"lib{'_'.join(str(n) for a in inputs.values() for n in a.shape)}.so"
    words = [emx, "compile", "--model-name", "model", "fixed.onnx", "model.c"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True)
    compiling = ["cc", "-O3", f"-march={level}", "-shared", "-fPIC", "model.c", "-lm", "-o", str(library)]
    subprocess.run(compiling, cwd=folder, check=True, capture_output=True)
    loaded = ctypes.CDLL(str(library))
    if (folder / "model.bin").exists():
        loaded.model_load.restype = ctypes.c_bool
        assert loaded.model_load(str(folder / "model.bin").encode())
    return loaded, sections(library)


def beside_c(
    peer: tuple[str, str], model: Path, e: Export, inputs: Arrays, results: list[Array], folder: Path, samples: int
) -> str:
    """A line of the bytes, the difference and the seconds of exported code and of C: of a command, for a level."""
    try:
        library, size = generated(*peer, model, inputs, folder)
    except subprocess.CalledProcessError as e:
        return f"emx-onnx-cgen    refuses: {(e.stderr or e.stdout).decode().strip().splitlines()[-1][:160]}"
    outputs = [np.empty_like(a) for a in results]
    passed = [np.ascontiguousarray(inputs[t.name]) for t in e.interface.inputs]
    addresses = [ctypes.c_void_p(a.ctypes.data) for a in (*passed, *outputs)]
    library.model(*addresses)
    (folder / "own.o").write_bytes(e.object)
    error = max(float(np.max(np.abs(a - b), initial=0)) for a, b in zip(outputs, results, strict=True))
    ours, theirs = (
        least([caller(Exported(e), passed, results)[0], lambda: library.model(*addresses)]) if samples else (0.0, 0.0)
    )
    return line("emx-onnx-cgen", (sections(folder / "own.o"), size), error, (ours, theirs))


def beside_web(web: Path, e: Export, inputs: Arrays, folder: Path, samples: int) -> str:
    """A line of the bytes, the difference and the seconds of a module and of onnxruntime-web."""
    (folder / "call.json").write_text(json.dumps({name: written_tensor(a) for name, a in inputs.items()}))
    done = subprocess.run(
        ["node", str(DRIVER), str(folder), str(web.resolve()), str(samples)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    own = sum((folder / name).stat().st_size for name in ("model.wasm", "model.mjs"))
    size = sum((web / "dist" / name).stat().st_size for name in WEB)
    return line("onnxruntime-web", (own, size), answer["error"], answer["seconds"] if samples else (0.0, 0.0))


def line(peer: str, sizes: tuple[int, int], error: float, seconds: Sequence[float]) -> str:
    ours, theirs = seconds
    times = f"{ours * 1e6:>9.1f} us {theirs * 1e6:>9.1f} us {theirs / ours:>6.2f}" if ours else ""
    return f"{peer:<16} {sizes[0]:>10,} {sizes[1]:>12,} {error:>9.1e} {times}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--emx", help="the command emx-onnx-cgen")
    parser.add_argument("--web", type=Path, help="the folder of the package onnxruntime-web")
    parser.add_argument("--level", default="x86-64-v3", choices=("x86-64-v2", "x86-64-v3", "x86-64-v4"))
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("models", nargs="*", default=USUAL)
    args = parser.parse_args()
    print(
        f"{'model':<10} {'sizes':>8} {'beside':<16} {'our bytes':>10} {'their bytes':>12} "
        "largest difference, our time, their time, ratio"
    )
    for name in args.models:
        model = load(name)
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            path = model.build(folder / "model.onnx")
            f, options = function_of(path)
            python = anyshape.compile(f, threads=1)
            c, module = (export(f, "model", export_target(t), options, "file") for t in (args.level, "wasm32"))
            module.write(folder)
            for batch, length in (model.SHAPES[0], model.SHAPES[len(model.SHAPES) // 2]):
                inputs = model.inputs(batch, length)
                start = f"{name:<10} {f'{batch} x {length}':>8}"
                if args.emx is not None:
                    peer, results = (args.emx, args.level), python.run(inputs)
                    print(start, beside_c(peer, path, c, inputs, results, folder, args.samples), flush=True)
                if args.web is not None:
                    print(start, beside_web(args.web, module, inputs, folder, args.samples), flush=True)


if __name__ == "__main__":
    main()
