"""Ops as functions of ONNX: onnxruntime, which knows nothing of them, computes what anyshape computes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper

import anyshape
from anyshape import ops
from anyshape.dtypes import from_numpy
from anyshape_gen.cli import main
from anyshape_gen.emit.operators.onnx_functions import Emitted, onnx_functions
from tests.specs import ROOT, all_specs

DOMAIN = "anyshape_ops"


@cache
def emitted() -> Emitted:
    return onnx_functions(all_specs(), DOMAIN)


FUNCTIONS = {f.name: f for f in emitted().model.functions}
TRUTHS = {a.spec.name: {o.name for o in a.spec.inputs if o.signature.dtype == "bool"} for a in all_specs().ops}
"""Operands that are truths"""
SPECS = {a.spec.name: a.spec for a in all_specs().ops}
LACKING = {name for name, f in FUNCTIONS.items() if any(n.op_type == "Erf" for n in f.node)}
"""Functions of an operator that onnxruntime has for f32 alone"""
ALONG_AN_AXIS = {name for name, f in FUNCTIONS.items() if any(n.op_type.startswith("Reduce") for n in f.node)}
BROADCAST = [(2, 3, 5), (5,), (3, 1)]
WITHIN_ONE = ("asin", "acos", "atanh")
ABOVE_ONE = ("acosh",)


def operands(name: str, dtype: Any, shapes: list[tuple[int, ...]]) -> list[NDArray[Any]]:
    """Numbers of all amounts, in the domain of the function, zeros among them."""
    rng = np.random.default_rng(len(name))
    arrays = []
    for k, shape in enumerate(shapes):
        a = rng.standard_normal(shape) * np.array([1e-6, 0.1, 1, 5, 30])[rng.integers(0, 5, shape)]
        a = np.asarray(a)
        a.reshape(-1)[:1] = 0
        a = np.clip(a, -0.999, 0.999) if name in WITHIN_ONE else 1 + np.abs(a) if name in ABOVE_ONE else a
        is_truth = FUNCTIONS[name].input[k] in TRUTHS[name]
        arrays.append(np.asarray(a > 0 if is_truth else a.astype(dtype)))
    return arrays


def run(
    f: onnx.FunctionProto,
    arrays: list[NDArray[Any]],
    attributes: Mapping[str, Any],
    outputs: Sequence[str] | None = None,
) -> list[Any]:
    """A node that calls the function, in onnxruntime, with all outputs or with these."""
    outputs = list(f.output) if outputs is None else outputs
    kinds = [helper.np_dtype_to_tensor_dtype(a.dtype) for a in arrays]
    infos = [helper.make_tensor_value_info(n, k, a.shape) for n, k, a in zip(f.input, kinds, arrays, strict=True)]
    node = helper.make_node(f.name, list(f.input), outputs, domain=f.domain)
    for key, value in attributes.items():
        no_axes = {"attr_type": onnx.AttributeProto.INTS} if value == () else {}
        node.attribute.append(helper.make_attribute(key, value, **no_axes))
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name=n) for n in outputs if n])
    imports = [helper.make_opsetid("", 19), helper.make_opsetid(f.domain, 1)]
    model = helper.make_model(graph, opset_imports=imports, functions=[f], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(zip(f.input, arrays))))


def in_onnxruntime(name: str, arrays: list[NDArray[Any]], **attributes: Any) -> list[Any]:
    return run(FUNCTIONS[name], arrays, attributes)


def here(name: str, arrays: list[NDArray[Any]], **attributes: Any) -> list[Any]:
    inputs = [anyshape.input(f"x{k}", f"{from_numpy(a.dtype)}{list(a.shape)}") for k, a in enumerate(arrays)]
    results = getattr(ops, name)(*inputs, **attributes)
    f = anyshape.function(inputs, list(results) if isinstance(results, tuple) else results)
    results = anyshape.compile(f, kernels="interpret")(*arrays)
    return list(results) if isinstance(results, tuple) else [results]


def compare(name: str, arrays: list[NDArray[Any]], **attributes: Any) -> None:
    for a, b in zip(here(name, arrays, **attributes), in_onnxruntime(name, arrays, **attributes), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        is_single = a.dtype == np.float32 or FUNCTIONS[name].attribute_proto  # attributes of ONNX are f32
        tolerance = 2e-6 if is_single else 1e-12
        # a difference of sums is as exact as what is subtracted
        scale = np.abs(arrays[0]).max(initial=1) if name in ALONG_AN_AXIS else 1e-2
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance * scale)


def calls(name: str, dtype: Any) -> list[tuple[list[NDArray[Any]], dict[str, Any]]]:
    """The examples of an op that are no errors, as operands of those shapes and attributes."""
    spec, drawn = SPECS[name], list[tuple[list[NDArray[Any]], dict[str, Any]]]()
    for example in spec.examples:
        shapes, arguments = list[tuple[int, ...]](), dict(example.arguments)
        if example.error is not None or "empty_is_all" in arguments:
            continue
        for o in spec.inputs:
            value = arguments.get(o.name)
            stated: Any = () if value is None else value.value
            shapes.append(np.shape(stated) if value is not None and value.literal else stated)
        attributes = {
            p.name: arguments[p.name].value
            for p in spec.params
            if p.name in arguments and p.name in attribute_names(name)
        }
        for p in FUNCTIONS[name].attribute:  # axes, whose default a function cannot compute
            attributes.setdefault(p, tuple(range(len(shapes[0]))))
        drawn.append((operands(name, dtype, shapes), attributes))
    return drawn


def attribute_names(name: str) -> set[str]:
    return {*FUNCTIONS[name].attribute, *(a.name for a in FUNCTIONS[name].attribute_proto)}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_computes_what_the_op_does(name: str) -> None:
    examples = [
        call for dtype in (np.float32, np.float64)[: 1 if name in LACKING else 2] for call in calls(name, dtype)
    ]
    assert examples
    for arrays, attributes in examples:
        compare(name, arrays, **attributes)


def with_param(name: str) -> list[str]:
    """The functions that have an attribute."""
    return [f for f in FUNCTIONS if name in attribute_names(f)]


@pytest.mark.parametrize("name", with_param("axis"))
def test_reductions_along_one_axis(name: str) -> None:
    rest = [()] * (len(FUNCTIONS[name].input) - 1)
    for shape, axis in (((3, 4, 5), 1), ((3, 4, 5), -3), ((3, 4), 0), ((7,), -1), ((2, 1, 5), 1)):
        for dtype in (np.float32, np.float64):
            compare(name, operands(name, dtype, [shape, *rest]), axis=axis)


@pytest.mark.parametrize("name", with_param("axes"))
def test_reductions_along_several_axes(name: str) -> None:
    """Reduces no axes too, and keeps sizes of 1 that it does not reduce."""
    cases = (((3, 4, 5), (0, -1)), ((3, 4, 5), (1,)), ((1, 3, 1), (0,)), ((1, 3), ()), ((2, 3, 4), (-1, 0, 1)))
    flags = [{}] if "keepdims" not in attribute_names(name) else [{}, {"keepdims": True}]
    for (shape, axes), flag in product(cases, flags):
        compare(name, operands(name, np.float32, [shape]), axes=axes, **flag)


def test_what_has_reductions() -> None:
    assert {"softmax", "rms_norm", "layer_norm"} <= set(with_param("axis"))
    assert {"sum", "mean", "log_sum_exp", "mean_variance_norm"} <= set(with_param("axes"))
    assert set(with_param("axis") + with_param("axes")) < ALONG_AN_AXIS


@pytest.mark.parametrize("name", ["add", "sub", "maximum", "less", "equal", "logical_and", "where"])
def test_operands_broadcast(name: str) -> None:
    compare(name, operands(name, np.float32, BROADCAST[: len(FUNCTIONS[name].input)]))
    compare(name, operands(name, np.float32, BROADCAST[::-1][: len(FUNCTIONS[name].input)]))


def test_parameters_are_attributes_with_their_defaults() -> None:
    x = operands("leaky_relu", np.float32, [(3, 5)])
    for attributes in ({}, {"alpha": 0.5}, {"alpha": -2.0}):
        compare("leaky_relu", x, **attributes)
    assert not np.array_equal(in_onnxruntime("leaky_relu", x)[0], in_onnxruntime("leaky_relu", x, alpha=0.5)[0])
    with_params = {n for n, f in FUNCTIONS.items() if f.attribute or f.attribute_proto}
    assert {"leaky_relu", "elu", "hard_sigmoid"} <= with_params


def test_functions_without_loss_near_zero_and_far_from_it() -> None:
    """exp(x) - 1 and log(1 + x) as they stand lose all digits of a tiny x."""
    x = np.array([1e-12, -1e-9, 1e-5, 0.0, 0.5, -0.999, 90.0, 1e30], np.float32)
    compare("expm1", [np.concatenate([x, np.array([-100.0, np.inf, -np.inf], np.float32)])])
    compare("log1p", [np.concatenate([x, np.array([np.inf, -1.0], np.float32)])])
    assert in_onnxruntime("log1p", [x])[0][0] == x[0]


def test_outputs_that_a_node_does_not_need_are_empty() -> None:
    """A node names all outputs, with an empty name for each that it does not need; onnxruntime refuses one that ends before them."""
    x = operands("layer_norm", np.float32, [(3, 8), (8,), (8,)])
    y, *_ = in_onnxruntime("layer_norm", x, axis=-1)
    (alone,) = run(FUNCTIONS["layer_norm"], x, {"axis": -1}, ["y", "", ""])
    np.testing.assert_allclose(alone, y, rtol=2e-6, atol=2e-6)
    with pytest.raises(Exception, match="output index 1 is out of range"):
        run(FUNCTIONS["layer_norm"], x, {"axis": -1}, ["y"])


def test_the_checker_takes_the_model_and_a_user_merges_it() -> None:
    onnx.checker.check_model(emitted().model)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])
    nodes = [
        helper.make_node("mish", ["x"], ["m"], domain=DOMAIN),
        helper.make_node("softsign", ["m"], ["y"], domain=DOMAIN),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 19)], ir_version=8
    )
    model.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    model.functions.extend(emitted().model.functions)
    a = np.linspace(-3, 3, 7, dtype=np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": a})[0], anyshape.compile(model)(a), rtol=2e-6)


def test_every_op_has_a_function_or_a_reason() -> None:
    names = {a.spec.name for a in all_specs().ops}
    assert names == FUNCTIONS.keys() | emitted().left_out.keys() and not FUNCTIONS.keys() & emitted().left_out.keys()
    reasons = emitted().left_out
    assert reasons["matmul"] == "positions are not those of dims and runs of one operand, in their order"
    assert reasons["conv"] and "depends" not in reasons["floor_div"]
    assert reasons["cumsum"] and reasons["reshape"] == "it is defined by other means than equations of its outputs"
    page = (ROOT / "docs" / "op-authors.md").read_text()
    assert f"Of the ops of this repository {len(FUNCTIONS)} have one." in page


SPEC = """\
ops:
  tanh_shrink:
    summary: x without its hyperbolic tangent, times a factor.
    inputs: {x: "T[*d]"}
    outputs: {y: "T[*d]"}
    dtypes: {T: float}
    params: {factor: {kind: float, default: 1.0}}
    kernel: "y[*i] = factor * (x[*i] - tanh(x[*i]))"
    reference: "factor * (x - np.tanh(x))"
    examples: [{x: [2], y: [2]}]
"""
"""An op of a user; what else may stand in place of its equation, and why it is no function then"""
EQUATIONS: dict[str, Callable[[Any, float], Any] | str] = {
    "factor * (x[*i] - tanh(x[*i]))": lambda x, f: f * (x - np.tanh(x)),
    "x[*i] if 0 < x[*i] <= 1 else -inf * factor": lambda x, f: np.where((x > 0) & (x <= 1), x, -np.inf * f),
    "factor * (x[*i] // 2 + fmod(x[*i], 2))": lambda x, f: f * (x // 2 + np.fmod(x, 2)),
    "factor * x[*i] * T(x[*i] > 0) * cast(not x[*i] > 1, T)": lambda x, f: f * x * (x > 0) * ~(x > 1),
    "T(factor) + 0 * x[*i] ** 2": lambda x, f: f + 0 * x,
    "x[*i] % factor": "BinOp", "factor * x[*i] * cast(ravel(i, d), T)": "ravel", "factor": "the shape of the result",
}  # fmt: skip
"""What computes the same, or the reason"""


@pytest.mark.parametrize("equation", EQUATIONS)
def test_ops_of_users(equation: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference, specs = EQUATIONS[equation], tmp_path / "specs"
    specs.mkdir()
    (specs / "mine.yaml").write_text(SPEC.replace("factor * (x[*i] - tanh(x[*i]))", equation))
    words = ["--specs", str(specs), "--package", "my_ops", "--out", str(tmp_path / "out"), "--target", "onnx"]
    assert main(words) == 0
    said = capsys.readouterr().out
    model = onnx.load(tmp_path / "out" / "my_ops.onnx")
    assert f"my_ops.onnx: {len(model.functions)} functions of domain my_ops" in said
    if isinstance(reference, str):
        assert not model.functions and re.search(f"no function: tanh_shrink: .*{reference}", said), said
        return
    (f,) = model.functions
    assert (f.domain, f.name, list(f.input), f.attribute_proto[0].f) == ("my_ops", "tanh_shrink", ["x"], 1.0)
    x = np.linspace(-2, 3, 11, dtype=np.float32)
    for attributes in ({}, {"factor": 2.5}):
        (y,) = run(f, [x], attributes)
        np.testing.assert_allclose(y, reference(x, attributes.get("factor", 1.0)), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("words", [["--check"], ["--json"], ["--prove"], ["watch", "exp"]])
def test_what_makes_no_sense_together(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--target", "onnx"]) == 2
    assert "--target onnx writes one file" in "".join(capsys.readouterr())


ROWS = """\
ops:
  scaled_rows:
    summary: Rows less their mean, divided by their largest amount.
    inputs: {x: "T[*d, n]", s: "T[]"}
    outputs: {y: "T[*d, n]", low: "T[*d]"}
    dtypes: {T: float}
    kernel: |
      total[*i] = sum(x[*i, k] for k in n)
      y[*i, k]  = s[()] * (x[*i, k] - total[*i]) / max(abs(x[*i, l]) for l in n)
      low[*i]   = min(x[*i, k] for k in n)
    reference: "[s * (x - x.sum(-1, keepdims=True)) / np.abs(x).max(-1, keepdims=True), x.min(-1)]"
    examples: [{x: [2, 3], s: [], y: [2, 3], low: [2]}]
"""
COLUMNS = (
    ROWS.replace('"T[*d, n]"', '"T[n, *d]"')
    .replace("[*i, k]", "[k, *i]")
    .replace("[*i, l]", "[l, *i]")
    .replace("(-1", "(0")
)
UNSUPPORTED = {
    "y[*i, k]  = s[()]": ("y[*i, k]  = s[()] + 0 * x[*i, n - 1 - k]", "at other positions"),
    "min(x[*i, k] for k in n)": ("min(x[*i, n - 1 - k] for k in n)", "at other positions"),
    "sum(x[*i, k] for k in n)": ("sum(x[*i, k] for k in n if k > 0)", "no operator for this sum"),
    "total[*i] = sum(x[*i, k] for k in n)": (
        "total[*i] = sum(x[*i, k] * x[*i, l] for k in n for l in n)",
        "at other positions",
    ),
    "max(abs(x[*i, l]) for l in n)": ("max(s[()] for l in n)", "reads nothing along its dims"),
}
"""What stands in place of a part, and why there is no function then"""


def rows(spec: str, folder: Path) -> onnx.ModelProto:
    (folder / "specs").mkdir(parents=True)
    (folder / "specs/mine.yaml").write_text(spec)
    words = ["--specs", str(folder / "specs"), "--package", "my_ops", "--out", str(folder), "--target", "onnx"]
    assert main(words) == 0
    return onnx.load(folder / "my_ops.onnx")


@pytest.mark.parametrize("axis", [-1, 0])
def test_reductions_of_users(axis: int, tmp_path: Path) -> None:
    (f,) = rows(ROWS if axis else COLUMNS, tmp_path).functions
    for shape in ((3, 4), (2, 3, 5), (6,)):
        x, s = np.random.default_rng(0).standard_normal(shape).astype(np.float32), np.array(0.5, np.float32)
        y, low = run(f, [x, s], {})
        np.testing.assert_allclose(low, x.min(axis))
        largest = np.abs(x).max(axis, keepdims=True)
        np.testing.assert_allclose(y, s * (x - x.sum(axis, keepdims=True)) / largest, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("part", UNSUPPORTED)
def test_reductions_that_have_no_function(part: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stated, why = UNSUPPORTED[part]
    assert part in ROWS and not rows(ROWS.replace(part, stated), tmp_path).functions
    assert re.search(f"no function: scaled_rows: .*{why}", capsys.readouterr().out)


CHANNELS = """\
ops:
  scaled_channels:
    summary: Channels divided by what the mean of their squares is, by element or as a whole, times a weight of each.
    inputs: {x: "T[b, c, *d]", w: "T[c]", v: "T[c] = 2"}
    params:
      by:     {kind: [channel, image], default: channel}
      negate: {kind: bool, default: false}
    outputs: {y: "T[b, c, *d]", norm: "T[b]", power: "T[c, *d]"}
    dtypes: {T: float}
    kernel: |
      square[n, h] = sum(x[n, h, *j] ** 2 for *j in d) / prod(d)
      mean[n]      = sum(square[n, h] for h in c) / c
      if by == "channel": size[n, h] = square[n, h]
      else: size[n, h] = mean[n] + 0 * square[n, h]
      y[n, h, *i]  = (-x[n, h, *i] if negate else x[n, h, *i]) / sqrt(size[n, h]) * w[h] * v[h]
      norm[n]      = max(x[n, h, *j] for h in c for *j in d)
      power[h, *i] = sum(x[n, h, *i] ** 2 for n in b)
    reference: "[x, x, x]"
    examples:
      - {x: [2, 3, 4], w: [3], v: [3], y: [2, 3, 4], norm: [2], power: [3, 4]}
      - {x: [2, 3], w: [3], by: image, negate: true, y: [2, 3], norm: [2], power: [3]}
"""


def channels(x: NDArray[Any], w: NDArray[Any], v: NDArray[Any], by: str, negate: bool) -> list[NDArray[Any]]:
    places = tuple(range(2, x.ndim))
    square = (x**2).mean(places, keepdims=True)
    size = square if by == "channel" else square.mean(1, keepdims=True)
    weights = (w * v).reshape(-1, *[1] * len(places))
    return [(-1 if negate else 1) * x / np.sqrt(size) * weights, x.max((1, *places)), (x**2).sum(0)]


def test_dims_and_runs_of_users(tmp_path: Path) -> None:
    (f,) = rows(CHANNELS, tmp_path).functions
    rng = np.random.default_rng(0)
    for shape in ((2, 3, 4), (2, 3, 4, 5), (1, 3), (2, 1, 1, 1)):
        x = rng.standard_normal(shape).astype(np.float32)
        w, v = rng.standard_normal((2, shape[1])).astype(np.float32)
        for by, negate in product(("channel", "image"), (False, True)):
            results = run(f, [x, w, v], {"by": by, "negate": negate})
            for result, expected in zip(results, channels(x, w, v, by, negate), strict=True):
                assert result.shape == expected.shape
                np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)
