"""What `anyshape simplify`, onnxslim and onnxsim leave of a model: `python -m benchmarks.simplify [MODEL ...]`.

Comes in: the models of benchmarks/models and the dates example; onnxslim and onnxsim where they are installed. Goes out: for each
tool the nodes that are left, how many values have a shape in numbers and input dims, in the file and after ONNX's own inference, seconds,
and whether onnxruntime gives equal results at three shapes, with its own rewriting off.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import anyshape
from anyshape.frontends.onnx.census import census
from benchmarks.models import load

DATES = Path(__file__).parents[1] / "examples" / "dates" / "dates.onnx"
NAMES = ("bert_mini", "bert_base", "shape_heavy", "dates")
SHAPES = ((1, 1), (2, 7), (3, 16))


def _onnxslim(path: str) -> Any:
    return import_module("onnxslim").slim(path)


def _onnxsim(path: str) -> Any:
    return import_module("onnxsim").simplify(onnx.load(path))[0]


TOOLS: dict[str, Callable[[str], Any]] = {"anyshape": anyshape.simplify, "onnxslim": _onnxslim, "onnxsim": _onnxsim}


def _installed() -> Iterator[str]:
    for name in TOOLS:
        try:
            import_module(name)
        except ImportError:
            print(f"({name} is not installed)")
        else:
            yield name


def _built(name: str, folder: Path) -> Path:
    return DATES if name == "dates" else load(name).build(folder / f"{name}.onnx")


def _inputs(name: str, batch: int, length: int) -> dict[str, Any]:
    if name == "dates":
        return {"ids": np.random.default_rng(0).integers(1, 50, (batch, length))}
    return dict(load(name).inputs(batch, length, seed=0))


def _results(model: Path, name: str) -> list[list[Any]]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    return [session.run(None, _inputs(name, *shape)) for shape in SHAPES]


def _equal(a: list[list[Any]], b: list[list[Any]]) -> str:
    same = all(np.allclose(x, y, rtol=1e-3, atol=1e-4) for u, v in zip(a, b, strict=True) for x, y in zip(u, v))
    return "equal" if same else "DIFFERENT"


def _line(tool: str, model: Any, seconds: float, verdict: str) -> str:
    said = census(model)
    inferred = census(onnx.shape_inference.infer_shapes(model, data_prop=True))
    return (
        f"  {tool:<9} {said.total:>5} nodes   shapes known {said.shaped:>4} of {said.values:<4}"
        f" with ONNX's inference {inferred.shaped:>4}   {seconds:6.2f} s   {verdict}"
    )


def measure(name: str, tools: list[str], folder: Path) -> Iterator[str]:
    """Yields one line for the model as it is, and one for each tool."""
    path = _built(name, folder)
    expected = _results(path, name)
    yield f"{name}\n" + _line("as it is", onnx.load(path), 0.0, "")
    for tool in tools:
        start = time.perf_counter()
        try:
            simplified = TOOLS[tool](str(path))
        except Exception as e:  # other people's tools: what they raise is a result
            yield f"  {tool:<9} failed: {e}"
            continue
        seconds = time.perf_counter() - start
        out = folder / "out.onnx"
        out.write_bytes(simplified.SerializeToString())
        yield _line(tool, simplified, seconds, _equal(expected, _results(out, name)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("models", nargs="*", default=NAMES, metavar="MODEL", help=", ".join(NAMES))
    tools = list(_installed())
    with tempfile.TemporaryDirectory() as folder:
        for name in parser.parse_args().models:
            for line in measure(name, tools, Path(folder)):
                print(line, flush=True)


if __name__ == "__main__":
    main()
