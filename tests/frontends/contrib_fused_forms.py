"""The forms of `contrib_forms` of operators that com.microsoft makes of several of ONNX's: quantised ones, and fused ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.frontends.contrib import RNG, real, whole
from tests.frontends.contrib_forms import NO, WRONG, YES, Feeds, Form, halved, ints


def codes(*shape: int, dtype: Any = np.uint8) -> np.ndarray:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    return RNG.integers(low, high + 1, shape).astype(dtype)


def weights_of(*shape: int, dtype: Any = np.int8) -> np.ndarray:
    """Weights of a product. Those with a sign are at most 64, of which onnxruntime's sums of two products, in 16 bits, are exact on
    processors without dot products of bytes, too."""
    full = codes(*shape, dtype=dtype)
    return full // 2 if dtype == np.int8 else full


def at(value: float, dtype: Any = np.float32) -> np.ndarray:
    return np.array(value, dtype)


def coded(name: str, *shape: int, dtype: Any = np.uint8, step: float = 0.02, point: int | None = 3) -> Feeds:
    """A quantised tensor, its scale and its zero point."""
    zero = None if point is None else at(point, dtype)
    drawn = weights_of if name in ("w", "b") else codes
    return {name: drawn(*shape, dtype=dtype), f"{name}_scale": at(step), f"{name}_zero": zero}


def result(dtype: Any = np.uint8, step: float = 0.03, point: int | None = 5) -> Feeds:
    return {"y_scale": at(step), "y_zero": None if point is None else at(point, dtype)}


def linear_codes() -> Iterator[Form]:
    yield from linear_maps()
    yield from linear_softmaxes()
    yield from linear_moves()
    yield from linear_pools()
    yield from linear_convs()


def linear_maps() -> Iterator[Form]:
    for op in ("QLinearAdd", "QLinearMul"):
        yield Form(op, "of u8", {**coded("a", 2, 3), **coded("b", 2, 3), **result()})
        i8 = np.int8
        yield Form(op, "of i8 that broadcasts", {**coded("a", 2, 3, dtype=i8), **coded("b", 3, dtype=i8), **result(i8)})
        yield Form(
            op,
            "without zero points",
            {**coded("a", 2, 3, point=None), **coded("b", 2, 3, point=None), **result(point=None)},
            theirs=NO,
        )
    for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        more = {"alpha": 0.1} if op == "QLinearLeakyRelu" else {}
        yield Form(op, "of u8", {**coded("a", 4, 5, point=128), **result(step=1 / 256, point=0)}, attributes=more)
        yield Form(op, "of i8", {**coded("a", 4, 5, dtype=np.int8), **result(np.int8)}, attributes=more)


def linear_softmaxes() -> Iterator[Form]:
    yield Form(
        "QLinearSoftmax",
        "of the last axis",
        {**coded("a", 2, 3, 4, step=0.05), **result(step=1 / 256, point=0)},
        attributes={"axis": -1, "opset": 13},
    )
    yield Form(
        "QLinearSoftmax",
        "of opset 12",
        {**coded("a", 2, 3, 4, step=0.05), **result(step=1 / 256, point=0)},
        attributes={"axis": 1, "opset": 12},
    )
    yield Form(
        "QLinearSoftmax",
        "of an axis that is not the last",
        {**coded("a", 2, 3, 4, step=0.05), **result(step=1 / 256, point=0)},
        attributes={"axis": 1, "opset": 13},
    )


def linear_moves() -> Iterator[Form]:
    yield Form(
        "QLinearWhere",
        "of u8",
        {"c": RNG.integers(0, 2, (2, 3)).astype(bool), **coded("a", 2, 3), **coded("b", 3), **result()},
    )
    three: Feeds = {
        **result(),
        **coded("a", 2, 3),
        **coded("b", 2, 4, step=0.05, point=9),
        **coded("d", 2, 1, step=0.01),
    }
    yield Form("QLinearConcat", "of three tensors", three, attributes={"axis": 1})


def linear_pools() -> Iterator[Form]:
    yield Form(
        "QLinearReduceMean",
        "of two axes",
        {**coded("a", 2, 3, 4), **result()},
        attributes={"axes": [1, 2], "keepdims": 1},
        theirs=NO,
    )
    yield Form("QLinearGlobalAveragePool", "of u8", {**coded("a", 2, 3, 4, 5), **result()})
    yield Form(
        "QLinearGlobalAveragePool",
        "`channels_last`",
        {**coded("a", 2, 4, 5, 3), **result()},
        attributes={"channels_last": 1},
    )
    pool = {"kernel_shape": [2, 3], "strides": [2, 1], "pads": [1, 1, 0, 1]}
    yield Form("QLinearAveragePool", "of u8", {**coded("a", 2, 3, 6, 7), **result()}, attributes=pool)
    yield Form(
        "QLinearAveragePool",
        "`channels_last`, `count_include_pad`",
        {**coded("a", 2, 6, 7, 3), **result()},
        attributes={**pool, "channels_last": 1, "count_include_pad": 1},
    )
    yield Form(
        "QLinearAveragePool", "`ceil_mode`", {**coded("a", 1, 2, 6, 7), **result()}, attributes={**pool, "ceil_mode": 1}
    )


def linear_convs() -> Iterator[Form]:
    weights: Feeds = {
        **coded("w", 4, 3, 2, 2, dtype=np.int8, point=0),
        **result(),
        "bias": ints(50, 4).astype(np.int32),
    }
    yield Form("QLinearConv", "of u8", {**coded("a", 2, 3, 5, 5), **weights})
    yield Form(
        "QLinearConv",
        "`channels_last`",
        {**coded("a", 2, 5, 5, 3), **weights},
        attributes={"channels_last": 1, "pads": [1, 0, 0, 1]},
    )


def quantised() -> Iterator[Form]:
    for op, x in (("QuantizeLinear", lambda *s: real(*s)), ("DequantizeLinear", lambda *s: codes(*s, dtype=np.uint16))):
        y: Any = np.uint16
        yield Form(op, "of 16 bits", {"x": x(2, 3), "scale": at(0.001), "zero": at(300, y)})
        axis: Feeds = {"x": x(2, 3), "scale": np.float32([0.1, 0.2, 0.3]), "zero": np.array([1, 2, 3], y)}
        yield Form(op, "of 16 bits, by channel", axis, attributes={"axis": 1})
    yield Form("QuantizeLinear", "without a zero point", {"x": real(2, 3), "scale": at(0.1)})
    yield Form("DequantizeLinear", "without a zero point", {"x": codes(2, 3), "scale": at(0.1)})
    product: Feeds = {**coded("a", 3, 4), **coded("b", 4, 5, dtype=np.int8, point=2), "c": ints(90, 5).astype(np.int32)}
    yield Form("QGemm", "to codes", {**product, **result(np.uint8)}, attributes={"alpha": 0.5})
    yield Form("QGemm", "to floats", product)
    transposed: Feeds = {**coded("a", 4, 3), **coded("b", 5, 4, dtype=np.int8, point=2), "c": None, **result(np.uint8)}
    yield Form("QGemm", "`transA`, `transB`", transposed, attributes={"transA": 1, "transB": 1})
    column: Feeds = {
        **coded("a", 3, 4),
        "b": weights_of(4, 5),
        "b_scale": np.abs(real(5)),
        "b_zero": codes(5, dtype=np.int8),
    }
    yield Form("QGemm", "by column", column)
    floats: Feeds = {
        "a": codes(2, 3, 4),
        "b": weights_of(4, 5),
        "sa": at(0.1),
        "sb": np.abs(real(5)),
        "za": at(7, np.uint8),
        "zb": codes(5, dtype=np.int8),
        "bias": real(5),
    }
    yield Form("MatMulIntegerToFloat", "by column, a bias", floats)
    yield Form(
        "MatMulIntegerToFloat", "without zero points", {**floats, "za": None, "zb": None, "bias": None, "sb": at(0.2)}
    )
    dynamic: Feeds = {
        "a": real(2, 3, 4),
        "b": weights_of(4, 5),
        "sb": np.abs(real(5)),
        "zb": codes(5, dtype=np.int8),
        "bias": real(5),
    }
    yield Form("DynamicQuantizeMatMul", "by column, a bias", dynamic)
    yield Form(
        "DynamicQuantizeMatMul",
        "of u8, without a zero point",
        {**dynamic, "b": codes(4, 5), "sb": at(0.1), "zb": None, "bias": None},
    )
    yield Form(
        "DynamicQuantizeMatMul",
        "of zeros",
        {**dynamic, "a": np.zeros((2, 3), np.float32), "b": weights_of(3, 5)},
    )
    yield Form("MatMulInteger16", "of i16", {"a": codes(2, 3, dtype=np.int16), "b": codes(3, 4, dtype=np.int16)})
    yield Form(
        "MulInteger",
        "of u8",
        {"a": codes(2, 3), "za": at(3, np.uint8), "b": codes(3), "zb": at(4, np.uint8)},
        theirs=NO,
    )
    yield Form("ReduceSumInteger", "of u8", {"a": codes(2, 3)}, attributes={"axes": [1], "keepdims": 1}, theirs=NO)


BNB: dict[str, Any] = {"K": 16, "N": 6, "block_size": 16, "transB": 1}


def few_bits() -> Iterator[Form]:
    def feeds(half: bool = False) -> Feeds:
        values: Feeds = {"a": real(3, 16), "b": codes(48), "most": np.abs(real(6))}
        return halved(values) if half else values

    yield Form("MatMulBnb4", "NF4", feeds(), attributes={**BNB, "quant_type": 1})
    yield Form("MatMulBnb4", "FP4", feeds(), attributes={**BNB, "quant_type": 0})
    yield Form("MatMulBnb4", "of f16", feeds(half=True), attributes={**BNB, "quant_type": 1})


def fused() -> Iterator[Form]:
    yield from fused_gemms()
    yield from fused_convs()
    yield from channels_last()
    yield from with_biases()
    yield from distances()
    yield from group_norms()


def activation_text(how: str) -> str:
    return f"`activation` {how}" if how else "no activation"


def fused_gemms() -> Iterator[Form]:
    for how in (
        "",
        "Relu",
        "Sigmoid",
        "Tanh",
        "LeakyRelu",
        "Elu",
        "Softplus",
        "Softsign",
        "ThresholdedRelu",
        "HardSigmoid",
        "Selu",
    ):
        activation: dict[str, Any] = {"activation": how} if how else {}
        if how in ("LeakyRelu", "Elu", "ThresholdedRelu", "HardSigmoid", "Selu"):
            activation["activation_alpha"] = 0.3
        activation |= (
            {"activation_beta": 0.6} if how == "HardSigmoid" else {"activation_gamma": 1.2} if how == "Selu" else {}
        )
        matrices: Feeds = {"a": real(3, 4), "b": real(5, 3), "c": real(4, 1)}
        yield Form(
            "FusedGemm",
            activation_text(how),
            matrices,
            attributes={"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0, **activation},
            theirs=YES if how else NO,
        )


def fused_convs() -> Iterator[Form]:
    for how, params in (
        ("", ()),
        ("Relu", ()),
        ("Sigmoid", ()),
        ("Tanh", ()),
        ("LeakyRelu", (0.2,)),
        ("HardSigmoid", (0.3, 0.4)),
        ("Clip", (-0.2, 0.3)),
    ):
        activation: dict[str, Any] = {"activation": how} if how else {}
        activation |= {"activation_params": params} if params else {}
        image: Feeds = {"x": real(2, 4, 5, 6), "w": real(6, 2, 3, 3), "bias": real(6)}
        window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "group": 2}
        yield Form("FusedConv", activation_text(how), image, attributes={**window, **activation})
        if how in ("Relu", ""):
            yield Form(
                "FusedConv",
                f"{activation_text(how)}, and a tensor that is added",
                {**image, "more": real(2, 6, 5, 6)},
                attributes={**window, **activation},
            )
    yield Form(
        "FusedConv", "another activation", image, attributes={**window, "activation": "Selu"}, theirs=NO, ours=NO
    )


def channels_last() -> Iterator[Form]:
    last: Feeds = {"x": real(2, 5, 6, 4), "w": real(6, 4, 3, 3), "bias": real(6)}
    yield Form(
        "NhwcFusedConv",
        "Relu, and a tensor that is added",
        {**last, "more": real(2, 3, 4, 6)},
        attributes={"activation": "Relu"},
        theirs=NO,
    )
    yield Form(
        "NhwcConv",
        "of f32",
        {**last, "w": real(6, 3, 3, 4)},
        attributes={"strides": [2, 1], "pads": [1, 0, 1, 2]},
        theirs=NO,
    )
    yield Form(
        "NhwcMaxPool",
        "of i8",
        {"x": codes(2, 5, 6, 3, dtype=np.int8)},
        attributes={"kernel_shape": [2, 3], "pads": [1, 1, 0, 1]},
    )


def with_biases() -> Iterator[Form]:
    yield Form("GemmFastGelu", "a bias", {"x": real(2, 3, 4), "w": real(4, 5), "bias": real(5)}, theirs=NO)
    yield Form("BiasAdd", "of f32", {"x": real(2, 3, 4), "bias": real(4), "skip": real(2, 3, 4)}, theirs=NO)
    yield Form("BiasDropout", "a residual", {"x": real(2, 3, 4), "bias": real(4), "skip": real(2, 3, 4)}, theirs=NO)
    yield Form(
        "BiasDropout",
        "a ratio, and its mask",
        {"x": real(2, 4), "bias": real(4), "skip": None, "ratio": at(0.5)},
        "y mask",
        theirs=NO,
        ours=NO,
    )
    yield Form("BiasSplitGelu", "of f32", {"x": real(2, 3, 8), "bias": real(8)}, theirs=NO)
    yield Form("ScaledSiLU", "a scale", {"x": real(2, 3), "scale": real(3)}, attributes={"alpha": 1.5}, theirs=NO)
    yield Form(
        "BiasSoftmax",
        "of a bias that broadcasts",
        {"x": real(2, 3, 4), "bias": real(2, 1, 4)},
        attributes={"axis": 2, "is_inner_broadcast": 1},
        theirs=NO,
    )


def distances() -> Iterator[Form]:
    for metric in ("sqeuclidean", "euclidean"):
        yield Form("CDist", metric, {"a": real(3, 4), "b": real(5, 4)}, attributes={"metric": metric})


def group_norms() -> Iterator[Form]:
    groups = {"groups": 2, "epsilon": 1e-4}
    for op in ("GroupNorm", "SkipGroupNorm"):
        known: Feeds = {"x": real(2, 4, 5, 6), "scale": real(6), "bias": real(6)}
        if op == "SkipGroupNorm":
            yield Form(
                op,
                "a skip and a bias, and the sum",
                {**known, "skip": real(2, 6), "moved": real(6)},
                "y s",
                {**groups, "activation": 1},
                theirs=NO,
            )
            continue
        yield Form(op, "SiLU, channels last", known, attributes={**groups, "activation": 1}, theirs=NO)
        first: Feeds = {"x": real(2, 6, 4, 5), "scale": real(6), "bias": real(6)}
        yield Form(op, "channels first", first, attributes={**groups, "activation": 0, "channels_last": 0}, theirs=NO)


def renamed() -> Iterator[Form]:
    yield Form("ExpandDims", "of an axis", {"x": real(2, 3), "axis": at(-1, np.int32)})
    yield Form("GatherND", "of rows", {"x": real(2, 3), "at": whole(2, 4, 1)})
    yield Form("Trilu", "`upper` 0, of k", {"x": real(3, 4), "k": at(1, np.int64)}, attributes={"upper": 0})
    yield Form("Pad", "a value", {"x": real(2, 3), "pads": np.array([1, 0, 0, 2]), "value": at(7)})
    yield Form("Pad", "edge", {"x": real(2, 3), "pads": np.array([1, 0, 0, 2])}, attributes={"mode": "edge"})
    yield Form("Range", "of floats", {"start": at(1), "stop": at(4.5), "step": at(0.5)})
    yield Form("Range", "without a step", {"start": at(1, np.int64), "stop": at(4, np.int64)})
    grid = np.clip(real(2, 4, 5, 2), -1.2, 1.2)
    yield Form("GridSample", "bilinear", {"x": real(2, 3, 6, 7), "grid": grid})
    yield Form(
        "GridSample",
        "nearest, border, `align_corners`",
        {"x": real(2, 3, 6, 7), "grid": grid},
        attributes={"mode": "nearest", "padding_mode": "border", "align_corners": 1},
    )
    yield Form("Unique", "of a vector", {"x": np.float32([2, 1, 1, 3, 4, 3])}, "y at counts")
    yield Form("TorchEmbedding", "of rows", {"weight": real(5, 3), "at": whole(5, 2, 2)}, theirs=NO)
    yield Form("IsAllFinite", "of two", {"a": real(2, 3), "b": np.float32([1, np.inf])}, theirs=NO)
    for dtype in (np.int32, np.int64, np.float32, np.float64):
        numbers = (real(3, 4) * 100).astype(dtype)
        yield Form("MurmurHash3", f"of {np.dtype(dtype)}", {"x": numbers}, attributes={"seed": 9})
    yield Form("MurmurHash3", "`positive` 0", {"x": ints(99, 5)}, attributes={"positive": 0})
    for bits in (2, 4, 8):
        packed = whole(256, 5, 6, 40 * bits // 8, dtype=np.uint8)
        gathered: Feeds = {"data": packed, "at": whole(5, 2, 3), "scale": real(5, 6, 3)}
        more = {"bits": bits, "block_size": 16, "quantize_axis": 2}
        yield Form("GatherBlockQuantized", f"bytes of {bits} bits", gathered, attributes=more)
    far = {"block_size": 16, "gather_axis": 1, "quantize_axis": 2}
    why = "both refuse another axis than the first"
    yield Form(
        "GatherBlockQuantized", "bytes along another axis", gathered, attributes=far, theirs=NO, ours=NO, why=why
    )
    words = np.array(["", "a", "ab", "abc", "abcd", "é", "€uro", "😀😀"], object)
    yield Form("MurmurHash3", "of strings", {"x": words}, attributes={"seed": 9})


def attention_of_codes() -> Iterator[Form]:
    def feeds(b: int, s: int, mask: np.ndarray | None = None, past: int = 0, weights: Any = np.int8) -> Feeds:
        return {
            "x": codes(b, s, 8),
            "w": weights_of(8, 24, dtype=weights),
            "bias": real(24),
            "sx": at(0.02),
            "sw": at(0.01),
            "mask": mask,
            "zx": at(120, np.uint8),
            "zw": at(3, weights),
            "past": real(2, b, 2, past, 4) if past else None,
        }

    heads: dict[str, Any] = {"num_heads": 2}
    yield Form("QAttention", "weights of i8", feeds(2, 3), attributes=heads)
    yield Form("QAttention", "weights of u8", feeds(2, 3, weights=np.uint8), attributes=heads)
    columns: Feeds = {**feeds(2, 3), "sw": np.abs(real(24)) / 50, "zw": codes(24, dtype=np.int8)}
    yield Form("QAttention", "by column", columns, attributes=heads)
    for shape in ((2,), (4,), (2, 3), (2, 3, 3)):
        yield Form("QAttention", f"`mask_index` of {shape}", feeds(2, 3, ints(2, *shape)), attributes=heads)
    past: Feeds = feeds(2, 3, past=4)
    yield Form("QAttention", "`unidirectional`, past and present", past, "y present", {**heads, "unidirectional": 1})
    why = "onnxruntime leaves the rotation out"
    yield Form("QAttention", "`do_rotary`", feeds(2, 3), "y", {**heads, "do_rotary": 1}, WRONG, NO, why)


def embedded_codes() -> Iterator[Form]:
    def feeds(segments: np.ndarray | None, mask: np.ndarray | None) -> Feeds:
        there = segments is not None
        tables: Feeds = {"words": codes(9, 8), "places": codes(6, 8), "kinds": codes(2, 8) if there else None}
        scales: Feeds = {f"s{k}": at(0.01 + 0.01 * k) if k != 2 or there else None for k in range(5)}
        zeros: Feeds = {f"z{k}": at(100 + k, np.uint8) if k != 2 or there else None for k in range(5)}
        norm: Feeds = {"gamma": codes(8), "shift": codes(8), "mask": mask}
        return {"ids": ints(9, 2, 4), "segments": segments, **tables, **norm, **scales, **zeros}

    op = "QEmbedLayerNormalization"
    yield Form(op, "words and places", feeds(None, None), "y marks")
    yield Form(op, "segments and a mask", feeds(ints(2, 2, 4), ints(2, 2, 4)), "y marks")
