"""Models of one node for every mapping of every opset, drawn by rule: each is a case of ONNX's suite, or a small one of its own, in which
one thing is changed.

In: ONNX's declarations of all versions, the table of mappings, the suite. Out: `Trial`s, of which `name` says operator, opset, case and
change.

An operator is tried in every opset that declares it anew or from which on a mapping holds. What an older opset has as an attribute, and
the case as an input of that name, becomes one. Changes are: the dtype of every type variable; every attribute absent, empty, and at the
extremes of its kind; every vector of integers among the inputs empty, and at its extremes; every optional input absent; contents of NaN,
infinities, the largest and the lowest float, the ends of integers, words; and an axis without elements.
"""

from __future__ import annotations

import warnings
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from anyshape.frontends.onnx.dtypes import BY_NUMBER
from anyshape.frontends.onnx.mappings import all_mappings, all_refusals, find_schema, normal_domain
from tests.frontends.differential_bases import own_bases
from tests.frontends.onnx_suite import as_array, cases

FEW, LARGE = 3, 3000
"""Cases of one operator from the suite, beside the small ones; elements of all inputs of a case"""
NEWEST = onnx.defs.onnx_opset_version()
INT64 = (-(2**63), 2**63 - 1)
EXTREMES: Mapping[int, Sequence[Any]] = {
    AttributeProto.INT: (0, 1, -1, 2, *INT64),
    AttributeProto.FLOAT: (0.0, 1.0, -1.0, 0.5, float("inf")),
    AttributeProto.STRING: (b"",),
}
WORDS = np.array(["", "a", "ab", "b", "é", "zz z"], object)
OF_TYPE = {f"tensor({helper.tensor_dtype_to_string(t).removeprefix('TensorProto.').lower()})": t for t in BY_NUMBER}
"""Element types that we have; the others are refused by name"""
FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)


@dataclass(frozen=True)
class Base:
    """One node and its inputs, None where one is left out."""

    name: str
    node: onnx.NodeProto
    feeds: tuple[np.ndarray | None, ...]


@dataclass(frozen=True)
class Trial:
    """One node in one opset. `change` is what it has that its case has not; inputs that must be known are constants."""

    operator: str
    opset: int
    case: str
    change: str
    attributes: Mapping[str, onnx.AttributeProto]
    feeds: tuple[np.ndarray | None, ...]
    outputs: int
    types: Mapping[int, int] = field(default_factory=dict)
    """Element types of inputs that NumPy's dtype does not tell"""

    @property
    def name(self) -> str:
        return f"{self.operator}-{self.opset} {self.case}: {self.change}"

    def model(self, wide: bool = False) -> tuple[bytes, dict[str, np.ndarray]]:
        """The model and what to feed it; `wide`: all floats of 64 bits."""
        domain, _, op = self.operator.rpartition(":")
        names, inputs, feed = [], [], {}
        for k, a in enumerate(self.feeds):
            names.append("" if a is None else f"x{k}")
            if a is not None:
                t = self.types.get(k) or element_type(a)
                if wide and t in FLOATS:
                    a, t = a.astype(np.float64), onnx.TensorProto.DOUBLE
                inputs.append(helper.make_tensor_value_info(names[-1], t, a.shape))
                feed[names[-1]] = a
        while names and not names[-1]:
            names.pop()
        outputs = [f"y{k}" for k in range(self.outputs)]
        node = helper.make_node(op, names, outputs, domain=domain)
        node.attribute.extend(self.attributes.values())
        graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=y) for y in outputs])
        opsets = [helper.make_opsetid(domain, self.opset)] if domain else []
        opsets.append(helper.make_opsetid("", NEWEST if domain else self.opset))
        return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), feed

    @property
    def number(self) -> int:
        """A number by which samples are drawn."""
        return zlib.crc32(self.name.encode())


def element_type(a: np.ndarray) -> int:
    return onnx.TensorProto.STRING if a.dtype.kind in "OUS" else helper.np_dtype_to_tensor_dtype(a.dtype)


@cache
def bases() -> dict[str, list[Base]]:
    """Collects a few cases of each operator that have all its attributes and inputs between them, as far as the suite does."""
    chosen: dict[str, list[Base]] = defaultdict(list)
    seen: dict[str, set[Any]] = defaultdict(set)
    suite = list(_suite())
    for k, base in enumerate([*suite, *own_bases(Base)]):
        domain = normal_domain(base.node.domain)
        operator = f"{domain}:{base.node.op_type}" if domain else base.node.op_type
        parts = {a.name for a in base.node.attribute} | {(k, a.ndim) for k, a in enumerate(base.feeds) if a is not None}
        if k >= len(suite) or (len(chosen[operator]) < FEW and not parts <= seen[operator]):
            chosen[operator].append(base)
            seen[operator] |= parts
    return chosen


def _suite() -> Iterator[Base]:
    for name, case in cases().items():
        graph = case.model.graph
        if len(graph.node) != 1 or ":" in name or graph.initializer or not case.data_sets:
            continue
        if any(a.type in (AttributeProto.GRAPH, AttributeProto.TYPE_PROTO) for a in graph.node[0].attribute):
            continue
        data = {i.name: as_array(a) for i, a in zip(graph.input, case.data_sets[0][0])}
        feeds = tuple(data.get(n) for n in graph.node[0].input)
        if all(a is None or isinstance(a, np.ndarray) for a in feeds) and sum(np.size(a) for a in feeds) < LARGE:
            yield Base(name.removeprefix("test_"), graph.node[0], feeds)


@cache
def opsets() -> dict[str, tuple[int, ...]]:
    """{operator: opsets that declare it anew, or from which on another mapping holds}, where it has a case."""
    versions: dict[str, set[int]] = {o: {v for v, m in all_mappings().get(o, {}).items() if m} for o in bases()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for schema in onnx.defs.get_all_schemas_with_history():
            name = f"{schema.domain}:{schema.name}" if schema.domain else schema.name
            if name in versions and not schema.deprecated:
                versions[name].add(schema.since_version)
    removed = {o: [v for v, m in all_mappings().get(o, {}).items() if m is None] for o in versions}
    refused = all_refusals()
    return {
        o: tuple(sorted(v for v in vs if not any(r <= v for r in removed[o])))
        for o, vs in versions.items()
        if o not in refused
    }


@cache
def trials() -> tuple[Trial, ...]:
    """All of them."""
    by_name = {}
    for operator, versions in sorted(opsets().items()):
        domain, _, name = operator.rpartition(":")
        for opset in versions:
            schema = find_schema(domain, name, opset)
            if schema is None or schema.deprecated:
                continue
            plain_ones = [p for base in bases()[operator] if (p := in_opset(base, operator, opset, schema)) is not None]
            for k, plain in enumerate(plain_ones):
                own = opset in all_mappings().get(operator, {}) or opset == versions[-1]
                for t in (plain, *changed(plain, schema, k == 0, own)):
                    by_name.setdefault(t.name, t)
    return tuple(by_name.values())


def in_opset(base: Base, operator: str, opset: int, schema: Any) -> Trial | None:
    """The case as an opset declares the operator; None where it has inputs that the opset knows nothing of."""
    domain, _, name = operator.rpartition(":")
    newest = find_schema(domain, name, 10**6)
    names = [i.name for i in newest.inputs] if newest is not None else []
    declared = [i.name for i in schema.inputs]
    lower = {key.lower(): key for key in schema.attributes}
    attributes = {a.name: a for a in base.node.attribute if a.name in schema.attributes}
    feeds: list[np.ndarray | None] = []
    for k, a in enumerate(base.feeds):
        called = names[min(k, len(names) - 1)]
        if a is None or called in declared or len(feeds) < len(declared):
            if called not in declared and a is not None and called.lower() in lower:
                attributes[lower[called.lower()]] = _as_attribute(lower[called.lower()], a, schema)
            else:
                feeds.append(a)
        elif called.lower() in lower:
            attributes[lower[called.lower()]] = _as_attribute(lower[called.lower()], a, schema)
    if any(a.type != int(schema.attributes[key].type.value) for key, a in attributes.items()):
        return None
    required = [i.option == onnx.defs.OpSchema.FormalParameterOption.Single for i in schema.inputs]
    if not schema.min_input <= len(feeds) <= schema.max_input or any(a is None and r for a, r in zip(feeds, required)):
        return None
    outputs = min(len(base.node.output), schema.max_output)
    trial = Trial(operator, opset, base.name, "as it is", attributes, tuple(feeds), outputs)
    return _in_types(trial, schema)


def _as_attribute(name: str, a: np.ndarray, schema: Any) -> onnx.AttributeProto:
    kind = int(schema.attributes[name].type.value)
    flat = [float(v) if kind in (AttributeProto.FLOAT, AttributeProto.FLOATS) else int(v) for v in a.ravel()]
    value: Any = flat if kind in (AttributeProto.INTS, AttributeProto.FLOATS) else flat[0]
    return helper.make_attribute(name, value, attr_type=kind)


def _formal(schema: Any, k: int) -> Any:
    return schema.inputs[min(k, len(schema.inputs) - 1)]


def allowed(schema: Any, type_str: str) -> list[int]:
    """Element types of a type variable, or of a type by name."""
    listed = next((c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == type_str), [type_str])
    return sorted(OF_TYPE[t] for t in listed if t in OF_TYPE)


def _in_types(trial: Trial, schema: Any) -> Trial | None:
    """The case with elements of types that the opset has: where it has not that of the case, f32, or the first."""
    chosen: dict[str, int] = {}
    for k, a in enumerate(trial.feeds):
        if a is not None:
            types = allowed(schema, _formal(schema, k).type_str)
            if not types:
                return None
            own = element_type(a)
            chosen.setdefault(
                _formal(schema, k).type_str, own if own in types else next((t for t in FLOATS if t in types), types[0])
            )
    typed = trial
    for variable, t in chosen.items():
        typed = in_type(typed, schema, variable, t)
    return replace(typed, change=trial.change)


def in_type(trial: Trial, schema: Any, variable: str, t: int) -> Trial:
    """The trial with all inputs of a type variable of another element type."""
    feeds, types = list(trial.feeds), dict(trial.types)
    for k, a in enumerate(feeds):
        if a is not None and _formal(schema, k).type_str == variable and (types.get(k) or element_type(a)) != t:
            feeds[k], types[k] = cast(a, t), t
    name = helper.tensor_dtype_to_string(t).removeprefix("TensorProto.").lower()
    return replace(trial, change=f"{variable} is {name}", feeds=tuple(feeds), types=types)


def cast(a: np.ndarray, t: int) -> np.ndarray:
    """Converts numbers to another element type, as far as it has them; to words for strings."""
    if t == onnx.TensorProto.STRING:
        return WORDS[np.arange(a.size) * 5 % len(WORDS)].reshape(a.shape)
    dtype = helper.tensor_dtype_to_np_dtype(t)
    if a.dtype.kind in "OUS":
        a = np.arange(a.size).reshape(a.shape) % 7
    if dtype.kind == "u" and a.dtype.kind in "if":
        a = np.abs(a)
    with np.errstate(all="ignore"):
        if dtype.kind in "iub" and a.dtype.kind in "iub":
            return a.astype(dtype)
        wide = a.astype(np.float64)
        return np.nan_to_num(wide).astype(dtype) if dtype.kind in "iub" else wide.astype(dtype)


def changed(plain: Trial, schema: Any, first: bool, own: bool) -> Iterator[Trial]:
    """The trial with one thing changed, in all ways. `first`: dtypes are those of an operator's first case; `own`: contents are for opsets
    that a mapping begins with, and for the last one, and so are extremes but of the first case."""
    for variable in (
        ()
        if not first
        else dict.fromkeys(_formal(schema, k).type_str for k, a in enumerate(plain.feeds) if a is not None)
    ):
        for t in allowed(schema, variable):
            yield in_type(plain, schema, variable, t)
    for name, declared in sorted(schema.attributes.items()):
        if name in plain.attributes and not declared.required:
            rest = {key: a for key, a in plain.attributes.items() if key != name}
            yield replace(plain, change=f"{name} absent", attributes=rest)
        for text, a in _extremes(name, int(declared.type.value), plain) if first or own else ():
            yield replace(plain, change=f"{name}={text}", attributes={**plain.attributes, name: a})
    for k, a in enumerate(plain.feeds):
        formal = _formal(schema, k)
        if a is None:
            continue
        if formal.option == onnx.defs.OpSchema.FormalParameterOption.Optional:
            yield _fed(plain, k, None, f"{formal.name} absent")
        if not own:
            continue
        if a.dtype.kind in "iu" and a.ndim <= 1 and 0 < a.size <= 16:
            yield from _operands(plain, k, a, formal.name)
        yield from _contents(plain, k, a, formal.name if len(schema.inputs) > k else f"{formal.name} {k}")
        of_one = a.dtype.kind == "f" and a.shape == (1,)  # where it has no number, onnxruntime reads beyond its end
        for axis in {0, a.ndim - 1} if a.ndim and not of_one else ():
            yield _fed(plain, k, a.take([], axis), f"{formal.name} without elements along {axis}")


def _fed(trial: Trial, k: int, a: np.ndarray | None, change: str) -> Trial:
    return replace(trial, change=change, feeds=(*trial.feeds[:k], a, *trial.feeds[k + 1 :]))


def _extremes(name: str, kind: int, plain: Trial) -> Iterator[tuple[str, onnx.AttributeProto]]:
    """An attribute at the ends of what its kind has; a list empty, and with each end as its first item."""
    own = plain.attributes.get(name)
    values: Iterable[Any] = (0, 1) if kind == AttributeProto.INT and name in flags() else EXTREMES.get(kind, ())
    if kind == AttributeProto.STRING:
        values = dict.fromkeys([*values, *_words(plain.operator, name)])
    if kind in (AttributeProto.INTS, AttributeProto.FLOATS):
        ends = EXTREMES[AttributeProto.INT if kind == AttributeProto.INTS else AttributeProto.FLOAT]
        items = list(helper.get_attribute_value(own)) if own is not None else []
        values = [
            [],
            *([end, *items[1:]] for end in ends if items),
        ]  # another list beside those of the case would contradict them
    if kind == AttributeProto.STRINGS:
        values = [[]]
    if kind == AttributeProto.TENSOR and own is not None:
        yield "[]", helper.make_attribute(name, numpy_helper.from_array(numpy_helper.to_array(own.t).ravel()[:0]))
    for value in values:
        yield str(value), helper.make_attribute(name, value, attr_type=kind)


@cache
def flags() -> frozenset[str]:
    """Attributes that are 0 or 1: no operator has another default for one of that name, and no case of the suite another value."""
    said: dict[str, set[int]] = defaultdict(set)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for schema in onnx.defs.get_all_schemas_with_history():
            for name, declared in schema.attributes.items():
                if declared.type.value == AttributeProto.INT:
                    count = declared.required or "number of" in declared.description.lower()
                    said[name].add(2 if count else declared.default_value.i)
    for n in (n for c in cases().values() for n in c.model.graph.node):
        for a in n.attribute:
            if a.name in said:
                said[a.name].add(a.i)
    return frozenset(name for name, values in said.items() if values <= {0, 1})


@cache
def _words(operator: str, name: str) -> tuple[bytes, ...]:
    """What the suite's cases of an operator say for an attribute of text."""
    domain, _, op = operator.rpartition(":")
    nodes = [n for c in cases().values() for n in c.model.graph.node if n.op_type == op and n.domain == domain]
    return tuple(dict.fromkeys(a.s for n in nodes for a in n.attribute if a.name == name))


def _operands(plain: Trial, k: int, a: np.ndarray, name: str) -> Iterator[Trial]:
    """Few integers, as shapes, axes and bounds are."""
    if a.ndim:
        yield _fed(plain, k, a[:0], f"{name}=[]")
    for end in (0, 1, -1, 2, int(np.iinfo(a.dtype).min), int(np.iinfo(a.dtype).max)):
        if end >= 0 or a.dtype.kind == "i":
            other = np.array(a)
            other.reshape(-1)[0] = end
            yield _fed(plain, k, other, f"{name}[0]={end}" if a.ndim else f"{name}={end}")


def _contents(plain: Trial, k: int, a: np.ndarray, name: str) -> Iterator[Trial]:
    """Numbers that are none, and the ends of those that are, spread over the input."""
    if a.dtype.kind == "f" and a.size:
        top = float(np.finfo(a.dtype).max)
        odd = {"nan": (np.nan,), "inf": (np.inf, -np.inf), "largest": (top,), "lowest": (-top,)}
        for text, values in odd.items():
            other = np.array(a)
            for j, v in enumerate(values):
                other.reshape(-1)[j * 7 % a.size] = v
            yield _fed(plain, k, other, f"{name} with {text}")
    elif a.dtype.kind in "iu" and a.ndim > 1 and a.size:
        other = np.array(a)
        other.reshape(-1)[0], other.reshape(-1)[-1] = np.iinfo(a.dtype).min, np.iinfo(a.dtype).max
        yield _fed(plain, k, other, f"{name} with ends")
