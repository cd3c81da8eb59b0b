"""docs/errors.md, made by provoking every kind of error: `python -m tests.errors.provoke` writes it, a test holds it current."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx

import anyshape
from anyshape import ops
from anyshape.errors import AnyshapeError

PAGE = Path(__file__).parents[2] / "docs" / "errors.md"

HEAD = """# Errors

Every error that bad input can cause is an `AnyshapeError`. It says what was expected, what was given, and where: a line of a spec, a
node of a model, an argument of a call. Each text below is printed by the code above it (`python -m tests.errors.provoke`).
"""

F32 = np.float32
Case = tuple[str, str, Callable[[Path], Any]]


def doubled() -> Any:
    x = anyshape.input("x", "f32[n, 4]")
    return anyshape.compile(anyshape.function([x], ops.add(x, x)))


def product() -> Any:
    a, b = anyshape.input("a", "f32[i, n]"), anyshape.input("b", "f32[m, j]")
    return anyshape.compile(anyshape.function([a, b], ops.matmul(a, b)))


def reshaped() -> Any:
    x, s = anyshape.input("x", "f32[n]"), anyshape.input("s", "i64[2]")
    return anyshape.compile(anyshape.function([x, s], ops.reshape(x, s)))


def gathered() -> Any:
    x, i = anyshape.input("x", "f32[n, 4]"), anyshape.input("i", "i64[k]")
    return anyshape.compile(anyshape.function([x, i], ops.gather(x, i)))


def spec(text: str) -> Callable[[Path], Any]:
    def provoke(folder: Path) -> Any:
        from anyshape_gen.analysis import analyse

        return analyse({"specs/mine.yaml": text})

    return provoke


def model_with(op: str, **attributes: Any) -> bytes:
    node = onnx.helper.make_node(op, ["x"], ["y"], name="mine", **attributes)
    x, y = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n"]) for name in "xy")
    graph = onnx.helper.make_graph([node], "g", [x], [y])
    return bytes(
        onnx.helper.make_model(
            graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
        ).SerializeToString()
    )


def truncated(folder: Path) -> Any:
    path = folder / "model.onnx"
    path.write_bytes(model_with("Relu")[:-20])
    return anyshape.compile(path)


def altered(folder: Path) -> Any:
    path = folder / "model.anyshape"
    doubled().save(path)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    return anyshape.load(path)


WRONG_SPEC = """ops:
  twice:
    summary: Twice the elements.
    inputs: {x: "T[*d]"}
    outputs: {y: "T[*d]"}
    dtypes: {T: float}
    kernel: "y[*i] = x[*i] + z[*i]"
    reference: "x + x"
    examples: [{x: [2, 3], y: [2, 3]}]
"""

CASES: list[Case] = [
    ("A dim of an argument", 'run = compile(add(x, x)), x: "f32[n, 4]"; run(ones(3, 5))', lambda _: doubled()(np.ones((3, 5), F32))),
    ("The rank of an argument", "run(ones(3))", lambda _: doubled()(np.ones(3, F32))),
    ("The dtype of an argument", "run(ones((3, 4), float64))", lambda _: doubled()(np.ones((3, 4)))),
    ("A missing argument", "run()", lambda _: doubled()()),
    ("An unknown argument", "run(x=..., z=...)", lambda _: doubled()(x=np.ones((1, 4), F32), z=np.ones(1, F32))),
    (
        "Dims that must be equal, at compile time",
        'matmul(a: "f32[n, 3]", b: "f32[4, m]")',
        lambda _: ops.matmul(anyshape.input("a", "f32[n, 3]"), anyshape.input("b", "f32[4, m]")),
    ),
    ("Dims that must be equal, at run time", "run = compile(matmul(a, b)); run(ones(2, 3), ones(4, 5))",
     lambda _: product()(np.ones((2, 3), F32), np.ones((4, 5), F32))),
    ("An assert of a spec, at run time", "run = compile(reshape(x, s)); run(ones(6), [-2, 3])",
     lambda _: reshaped()(np.ones(6, F32), np.array([-2, 3]))),
    ("A partial operation of a shape rule, at run time", "run = compile(reshape(x, s)); run(ones(6), [4, -1])",
     lambda _: reshaped()(np.ones(6, F32), np.array([4, -1]))),
    ("An index out of range", "run = compile(gather(x, i)); run(ones(3, 4), [3])",
     lambda _: gathered()(np.ones((3, 4), F32), np.array([3]))),
    ("Dtypes that must be equal", 'add(a: "f32[n]", b: "i64[n]")',
     lambda _: ops.add(anyshape.input("a", "f32[n]"), anyshape.input("b", "i64[n]"))),
    ("A dtype that an op does not accept", 'exp(x: "i64[n]")', lambda _: ops.exp(anyshape.input("x", "i64[n]"))),
    ("An axis", 'softmax(x: "f32[n]", axis=2)', lambda _: ops.softmax(anyshape.input("x", "f32[n]"), axis=2)),
    ("A parameter", 'softmax(x, axis="last")', lambda _: ops.softmax(anyshape.input("x", "f32[n]"), axis="last")),
    ("An attribute that is not constant", "static.reshape(x, newshape=s)",
     lambda _: ops.static.reshape(anyshape.input("x", "f32[n]"), newshape=anyshape.input("s", "i64[1]"))),
    ("The text of a type", 'input("x", "f99[n]")', lambda _: anyshape.input("x", "f99[n]")),
    ("The text of a function", 'parse("function main(%x: f32[n]) { … softmx … }")',
     lambda _: anyshape.parse("function main(%x: f32[n]) {\n  %0: f32[n] = softmx(%x)\n  return y=%0\n}")),
    ("An unknown operator", "compile(model with NoSuchOp)", lambda _: anyshape.compile(model_with("NoSuchOp"))),
    ("A damaged model", "compile(first bytes of a model)", truncated),
    ("A damaged saved model", 'load("model.anyshape"), with one flipped bit', altered),
    ("A spec", "make gen, on a spec that reads z", spec(WRONG_SPEC)),
]  # fmt: skip


def messages() -> Iterator[tuple[str, str, AnyshapeError]]:
    """(title, code, error) of each case; whatever is no AnyshapeError, or no error at all, is raised."""
    with tempfile.TemporaryDirectory() as folder:
        for title, code, provoke in CASES:
            try:
                provoke(Path(folder))
            except AnyshapeError as e:
                yield title, code, e
            else:
                raise AssertionError(f"{title}: nothing was raised")


def page() -> str:
    parts = [HEAD]
    for title, code, error in messages():
        text = re.sub(r"/\S*/(?=model\.(onnx|anyshape))", "", str(error))
        parts.append(f"## {title}\n\n    {code}\n\n```\n{type(error).__name__}: {text}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
