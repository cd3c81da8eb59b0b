"""The table of ONNX nodes that take weights in few bits: what is written in place of a node, by how it uses its weight and by the format.

In: a node, its use of a weight, and how to round. Out: nodes with the results of the old one, and what the weight is now. MatMulNBits and
GatherBlockQuantized decode codes while they compute, in onnxruntime and here. What stands before a DequantizeLinear is narrow in the file,
and becomes floats when the model is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import to_numpy
from anyshape.quantisation.rounding import Rounding, rounded, rounded_to_floats
from anyshape.quantisation.weight_uses import UseKind, WeightUse

Array = NDArray[Any]

CONTRIB = "com.microsoft"
IN_BYTES = 4
"""The accuracy_level of a MatMulNBits that may round its data to bytes, a group at a time"""
GROUPS = (16, 32, 64, 128, 256)
"""Sizes of groups that onnxruntime's MatMulNBits has"""


class Initializers(Protocol):
    """Adds a tensor to a model under a name that is free, which it returns."""

    def __call__(self, name: str, a: Array) -> str: ...


@dataclass(frozen=True, kw_only=True)
class Replaced:
    """A node to be replaced. `data` and `weight` are the places of its operands, `name` the name of the weight."""

    node: Any
    use: WeightUse
    data: int
    weight: int
    name: str


@dataclass(frozen=True, kw_only=True)
class NarrowNodes:
    """What stands for a node, the last of which has its result, and the error of the weight."""

    nodes: Sequence[Any]
    error: float


@dataclass(frozen=True, kw_only=True)
class StoredCodes:
    """The names of the tensors that hold a rounded weight, and its error."""

    packed: str
    scales: str
    zeros: str
    error: float


class CodeStore:
    """Rounded weights of one model: what several nodes use is stored once. `of_bytes`: products may round their data to bytes."""

    def __init__(self, how: Rounding, add: Initializers, fresh: Callable[[str], str], of_bytes: bool) -> None:
        self.how, self.add, self.fresh, self.of_bytes = how, add, fresh, of_bytes
        self._stored: dict[Any, StoredCodes] = {}

    def codes(self, r: Replaced, how: Rounding, length: int | None = None) -> StoredCodes:
        """Returns a weight in groups, [rows, groups, bytes]; with a `length` of rows in bytes, [rows, bytes] without padding."""
        use = r.use
        assert use.weight.constant is not None
        memory = use.weight.constant.__array_interface__["data"][0]
        key = (memory, use.order, use.columns, use.sizes, use.factor, how, length)
        if key not in self._stored:
            codes = rounded(use.rows, how, use.factor)
            packed = codes.packed if length is None else codes.packed.reshape(len(codes.packed), -1)[:, :length]
            self._stored[key] = StoredCodes(
                packed=self.add(f"{r.name}_codes", packed),
                scales=self.add(f"{r.name}_scales", codes.scales),
                zeros="" if codes.zeros is None else self.add(f"{r.name}_zeros", codes.zeros),
                error=codes.error,
            )
        return self._stored[key]


def _in_groups(r: Replaced, how: Rounding) -> Rounding:
    """The rounding for the rows of a weight: a shorter group, if one holds a whole row."""
    size = r.use.rows.shape[1]
    return replace(how, group=min(how.group, next((g for g in GROUPS if g >= size), how.group)))


def _product(r: Replaced, store: CodeStore) -> NarrowNodes:
    """MatMulNBits: rows times a matrix, whose columns are in groups. Several dims of columns, or that are summed over, are one there."""
    use, how = r.use, _in_groups(r, store.how)
    stored = store.codes(r, how)
    bias = "" if use.bias is None else store.add(f"{r.name}_bias", use.bias)
    columns, summed = use.sizes[: use.columns], use.sizes[use.columns :]
    n, k = use.rows.shape
    data, result, nodes = r.node.input[r.data], r.node.output[0], []
    if len(summed) > 1:
        data, whole = store.fresh(f"{r.name}_data"), data
        nodes.append(_reshape(store, r, whole, (k,), data))
    product = result if len(columns) == 1 else store.fresh(f"{r.name}_product")
    inputs = [data, stored.packed, stored.scales, stored.zeros, "", bias]
    sizes = {"K": k, "N": n, "bits": how.bits, "block_size": how.group}
    permission = {"accuracy_level": IN_BYTES} if store.of_bytes else {}
    nodes.append(_node("MatMulNBits", inputs, product, r.node, **sizes, **permission))
    if product != result:
        nodes.append(_reshape(store, r, product, columns, result))
    return NarrowNodes(nodes=nodes, error=stored.error)


def _reshape(store: CodeStore, r: Replaced, operand: str, sizes: Sequence[int], result: str) -> Any:
    """Makes a node that gives what comes after the leading dims other sizes."""
    import onnx

    shape = store.add(f"{r.name}_shape", np.array([*[0] * r.use.lead, *sizes], np.int64))
    return onnx.helper.make_node("Reshape", [operand, shape], [result])


def _lookup(r: Replaced, store: CodeStore) -> NarrowNodes | str:
    """GatherBlockQuantized: rows of a table, in groups. Where rows need no padding, their codes are those that a product by the transposed
    table has, without the dim of groups."""
    how, (n, size) = _in_groups(r, store.how), r.use.rows.shape
    if size * how.bits % 8:
        return f"rows of {size} elements of {how.bits} bits do not end with a byte"
    length, nodes = size * how.bits // 8, []
    stored = store.codes(r, how, length if size % how.group else None)
    codes = stored.packed
    if size % how.group == 0:
        codes = store.fresh(f"{r.name}_rows")
        nodes.append(_reshape(store, r, stored.packed, (n, length), codes))
    inputs = [codes, r.node.input[r.data], stored.scales, stored.zeros]
    sizes = {"bits": how.bits, "block_size": how.group, "gather_axis": 0, "quantize_axis": 1}
    nodes.append(_node("GatherBlockQuantized", inputs, r.node.output[0], r.node, **sizes))
    return NarrowNodes(nodes=nodes, error=stored.error)


def _bytes_of_channels(r: Replaced, store: CodeStore) -> NarrowNodes | str:
    """DequantizeLinear before the node: bytes, with a scale and a zero point for each channel."""
    codes = rounded(r.use.rows, replace(store.how, group=r.use.rows.shape[1]))
    zeros = np.full(codes.scales.shape, 128, np.uint8) if codes.zeros is None else codes.zeros
    return _dequantised(r, store, [codes.packed, codes.scales, zeros], codes.error)


def _floats_of_channels(r: Replaced, store: CodeStore) -> NarrowNodes | str:
    """DequantizeLinear before the node: floats of 8 bits, with a scale for each channel."""
    floats = rounded_to_floats(r.use.rows, to_numpy("f8e4m3fn"))
    return _dequantised(r, store, [floats.values, floats.scales], floats.error)


def _dequantised(r: Replaced, store: CodeStore, tensors: Sequence[Array], error: float) -> NarrowNodes | str:
    """Writes rows of values, their scales and zero points for a DequantizeLinear, and the node, which reads that."""
    import onnx

    if not r.use.is_operand:
        return "its weight is computed of constants when the model is compiled; anyshape simplify writes it as one constant"
    values, *of_rows = tensors
    whole = np.ascontiguousarray(values.reshape(r.use.sizes).transpose(np.argsort(r.use.order)))
    arrays = zip(("codes", "scales", "zeros"), (whole, *(a.reshape(-1) for a in of_rows)))
    inputs = [store.add(f"{r.name}_{what}", a) for what, a in arrays]
    name = store.fresh(f"{r.name}_dequantised")
    node = type(r.node)()
    node.CopyFrom(r.node)
    node.input[r.weight] = name
    dequantised = onnx.helper.make_node("DequantizeLinear", inputs, [name], axis=r.use.order[0])
    return NarrowNodes(nodes=[dequantised, node], error=error)


def _node(operator: str, inputs: Sequence[str], result: str, old: Any, **attributes: int) -> Any:
    """Makes a node of onnxruntime's domain with the name and the notes of another; operands that are left out at the end are no inputs."""
    import onnx

    names = list(inputs)
    while not names[-1]:
        names.pop()
    node = onnx.helper.make_node(operator, names, [result], domain=CONTRIB, name=old.name, **attributes)
    node.doc_string = old.doc_string
    node.metadata_props.extend(old.metadata_props)
    return node


@dataclass(frozen=True, kw_only=True)
class NarrowForm:
    """How a use is written: a writer, which returns a reason where it cannot; the operator that says so in reports, whether it decodes
    while it computes, and the opset of ONNX's own domain that it is in, with scales of f32 and of f16."""

    write: Callable[[Replaced, CodeStore], NarrowNodes | str]
    operator: str
    decodes: bool = True
    opset: int = 1
    opset_of_f16: int = 1


_BYTES = NarrowForm(write=_bytes_of_channels, operator="DequantizeLinear", decodes=False, opset=13, opset_of_f16=19)
_FLOATS = NarrowForm(write=_floats_of_channels, operator="DequantizeLinear", decodes=False, opset=19, opset_of_f16=19)
_PRODUCT = NarrowForm(write=_product, operator="MatMulNBits")
_LOOKUP = NarrowForm(write=_lookup, operator="GatherBlockQuantized")


@dataclass(frozen=True, kw_only=True)
class WeightFormat:
    """A format of weights: its bits, whether they are integers in groups, and the node for each kind of use; None where no runtime has
    one, and a contraction stays as it is."""

    bits: int
    grouped: bool
    forms: Mapping[UseKind, NarrowForm | None]


FORMATS: Mapping[str, WeightFormat] = MappingProxyType({
    "int4": WeightFormat(bits=4, grouped=True, forms={
        UseKind.PRODUCT: _PRODUCT, UseKind.LOOKUP: _LOOKUP, UseKind.CONTRACTION: None}),
    "int8": WeightFormat(bits=8, grouped=True, forms={
        UseKind.PRODUCT: _PRODUCT, UseKind.LOOKUP: _LOOKUP, UseKind.CONTRACTION: _BYTES}),
    "f8e4m3": WeightFormat(bits=8, grouped=False, forms={
        UseKind.PRODUCT: _FLOATS, UseKind.LOOKUP: None, UseKind.CONTRACTION: _FLOATS}),
})  # fmt: skip
