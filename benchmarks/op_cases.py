"""The cases of `benchmarks.op_audit`: every operator of ONNX in its usual variants, from the table `op_cases.yaml`.

In: entries of the table. Out: a `Case` for each variant: an ONNX model whose sizes are unknown, and arrays for it at several sizes. The
head of the table says how an entry is written.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper, parser

from anyshape.dtypes import parse_dtype

TABLE = Path(__file__).with_name("op_cases.yaml")
OPSET, VERSIONS = 20, {"ai.onnx.ml": 3}
"""Versions of an entry that says nothing; other domains have 1."""
IR_VERSION = 10
NO_KERNEL = "no peer has a kernel of it for processors"
CODES = 255
"""Integers are drawn below this, if the table says nothing and the dtype holds them"""
_VALUE = re.compile(r"(?P<dtype>\w+)\s*(?:\[(?P<dims>[^\]]*)\])?\s*(?:(?P<how>=|in|of|by)\s*(?P<what>.+))?", re.DOTALL)
_KEYS = {"operators", "as", "node", "each", "in", "const", "at", "opset", "new", "steps", "unordered"}

Array = NDArray[Any]
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Value:
    """An input or a constant: a dtype, dims that are numbers or expressions of sizes, and how its contents are drawn: `in` a range, `of`
    distinct numbers below one, normal numbers multiplied `by` one, or `=` given as they are."""

    dtype: np.dtype[Any]
    dims: tuple[str, ...]
    how: str
    what: str

    @staticmethod
    def read(text: str) -> Value:
        """Raises ValueError for a text that describes no value."""
        match = _VALUE.fullmatch(text.strip())
        if match is None:
            raise ValueError(f"{text!r} describes no value, like f32[n, 768] in 0..1")
        dims = tuple(d.strip() for d in (match["dims"] or "").split(",") if d.strip())
        return Value(parse_dtype(match["dtype"]).numpy, dims, match["how"] or "", match["what"] or "")

    def shape(self, sizes: Sizes) -> tuple[int, ...]:
        return tuple(evaluate(d, sizes) for d in self.dims)

    def array(self, sizes: Sizes, seed: int) -> Array:
        """Draws the contents, the same numbers at every call."""
        random, shape = np.random.default_rng(seed), self.shape(sizes)
        if self.how == "=":
            array = np.array(evaluate(self.what, sizes), self.dtype)
            return np.broadcast_to(array, shape).copy() if self.dims else array
        if self.how == "of":
            chosen = random.permutation(evaluate(self.what, sizes))[: shape[0]]
            return np.broadcast_to(chosen.reshape(-1, *[1] * (len(shape) - 1)), shape).astype(self.dtype)
        if self.how == "in":
            low, high = (evaluate(t, sizes) for t in self.what.split(".."))
            drawn = random.integers(low, high, shape) if self.dtype.kind in "iu" else random.uniform(low, high, shape)
            return np.asarray(drawn).astype(self.dtype)
        if self.dtype.kind == "b":
            return random.integers(0, 2, shape).astype(bool)
        if self.dtype.kind in "iu":
            info = np.iinfo(self.dtype)
            return random.integers(max(info.min, -CODES), min(info.max, CODES), shape, endpoint=True).astype(self.dtype)
        return np.asarray(random.standard_normal(shape) * float(evaluate(self.what or "1", sizes))).astype(self.dtype)


@dataclass(frozen=True)
class Case:
    """A variant of an operator. `at`: the sizes at which it is run; `new`: shapes of results depend on contents, so that no engine is given
    a place for them; `steps`: by how much integers may differ; `unordered`: the order along the last axis is not defined."""

    operator: str
    name: str
    nodes: tuple[NodeProto, ...]
    inputs: Mapping[str, Value]
    constants: Mapping[str, Value]
    at: tuple[Sizes, ...]
    opset: int
    new: bool
    steps: int
    unordered: bool
    tolerance: float | None = None
    """The tolerance of floats, as a share of the largest, if it is not that of their dtype."""

    @property
    def outputs(self) -> list[str]:
        """Results that no node reads."""
        read = {name for node in self.nodes for name in node.input}
        return [name for node in self.nodes for name in node.output if name and name not in read]

    def model(self) -> ModelProto:
        symbols: dict[str, str] = {}

        def dim(text: str) -> int | str:
            return (
                int(text)
                if text.isdigit()
                else symbols.setdefault(text, text if text.isidentifier() else f"d{len(symbols)}")
            )

        inputs = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), [dim(d) for d in v.dims])
            for n, v in self.inputs.items()
        ]
        constants = [numpy_helper.from_array(v.array({}, _seed(n)), n) for n, v in self.constants.items()]
        results = [ValueInfoProto(name=n) for n in self.outputs]
        graph = helper.make_graph(list(self.nodes), "case", inputs, results, constants)
        domains = {"": self.opset, **{n.domain: VERSIONS.get(n.domain, 1) for n in self.nodes if n.domain}}
        imports = [helper.make_opsetid(domain, version) for domain, version in domains.items()]
        return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)

    def arrays(self, sizes: Sizes) -> dict[str, Array]:
        return {n: v.array(sizes, _seed(n)) for n, v in self.inputs.items()}


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())


def spell_sizes(sizes: Sizes) -> str:
    return " ".join(f"{n}={size}" for n, size in sizes.items())


def evaluate(text: str, names: Mapping[str, Any]) -> Any:
    """Evaluates an expression of the table, in which names of sizes and of alternatives are known, and `FUNCTIONS`."""
    return eval(text, {"__builtins__": {}, **FUNCTIONS}, dict(names))


def repeated(times: int, *values: float) -> str:
    """Lists values again and again, for an attribute."""
    return ", ".join(map(str, values * times))


def counted(end: int) -> str:
    """Lists the numbers below one."""
    return ", ".join(map(str, range(end)))


def forest(trees: int, depth: int, width: int, kind: str) -> str:
    """Writes the attributes of complete trees of such a depth that read `width` features, in the version of TreeEnsemble`kind`."""
    random, inner, every = np.random.default_rng(trees), (1 << depth) - 1, (2 << depth) - 1
    where, own = [t for t in range(trees) for _ in range(every)], [k for _ in range(trees) for k in range(every)]
    branch = [k < inner for k in own]
    nodes: dict[str, list[Any]] = {
        "nodes_treeids": where,
        "nodes_nodeids": own,
        "nodes_featureids": [int(random.integers(width)) if b else 0 for b in branch],
        "nodes_values": [float(random.normal()) if b else 0.0 for b in branch],
        "nodes_modes": ["BRANCH_LEQ" if b else "LEAF" for b in branch],
        "nodes_truenodeids": [2 * k + 1 if b else 0 for k, b in zip(own, branch)],
        "nodes_falsenodeids": [2 * k + 2 if b else 0 for k, b in zip(own, branch)],
    }
    leaves = [(t, k) for t, k, b in zip(where, own, branch) if not b]
    name = "target" if kind == "Regressor" else "class"
    nodes |= {
        f"{name}_treeids": [t for t, _ in leaves],
        f"{name}_nodeids": [k for _, k in leaves],
        f"{name}_ids": [0 if kind == "Regressor" else k % 3 for _, k in leaves],
        f"{name}_weights": [float(random.normal()) for _ in leaves],
    }
    last = ["n_targets = 1"] if kind == "Regressor" else ["classlabels_int64s = [0, 1, 2]"]
    return ", ".join([*(f"{n} = {v}".replace("'", '"') for n, v in nodes.items()), *last])


FUNCTIONS = {"max": max, "min": min, "isqrt": math.isqrt, "repeated": repeated, "counted": counted, "forest": forest}


def filled(what: Any, names: Mapping[str, Any]) -> Any:
    """Replaces `$name` and `${expression}` in all texts of an entry."""
    if isinstance(what, str):
        return re.sub(r"\$(?:\{([^}]*)\}|(\w+))", lambda m: str(evaluate(m[1] or m[2], names)), what)
    if isinstance(what, dict):
        return {filled(k, names): filled(v, names) for k, v in what.items()}
    return [filled(v, names) for v in what] if isinstance(what, list) else what


def choices(each: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Combines alternatives: of several names separated by commas, each alternative is a list with a value for each."""
    parts = []
    for names, values in each.items():
        keys = [k.strip() for k in names.split(",")]
        parts.append([dict(zip(keys, v if len(keys) > 1 else [v], strict=True)) for v in values])
    for combination in product(*parts):
        yield {k: v for part in combination for k, v in part.items()}


def spelled(chosen: Mapping[str, Any]) -> list[str]:
    """Names alternatives: texts as they are, numbers with their names."""
    return [
        v.replace(", ", "x") if isinstance(v, str) else f"{k}={v}".replace(" ", "")
        for k, v in chosen.items()
        if not k.startswith("_")
    ]


def of_entry(entry: Mapping[str, Any]) -> Iterator[Case]:
    """Makes the cases of an entry. Raises ValueError for one that is written wrongly."""
    if unknown := set(entry) - _KEYS:
        raise ValueError(f"{entry['operators']}: unknown keys {sorted(unknown)}")
    rest = {k: v for k, v in entry.items() if k not in ("operators", "each")}
    for operator in entry["operators"]:
        for chosen in choices(entry.get("each", {})):
            yield of_choice(operator, chosen, filled(rest, {**chosen, "op": operator.replace(":", ".")}))


def of_choice(operator: str, chosen: Mapping[str, Any], entry: Mapping[str, Any]) -> Case:
    nodes = tuple(parser.parse_node(line) for line in entry["node"].strip().splitlines())
    domain, _, name = operator.rpartition(":")
    if (name, domain) not in [(n.op_type, n.domain) for n in nodes]:
        raise ValueError(f"{operator}: it is none of the nodes {entry['node']!r}")
    inputs, constants = ({n: Value.read(str(t)) for n, t in entry.get(k, {}).items()} for k in ("in", "const"))
    columns = zip(*entry["at"].values(), strict=True)
    return Case(
        operator=operator,
        name=" ".join([*([entry["as"]] if "as" in entry else []), *spelled(chosen)]),
        nodes=nodes,
        inputs=inputs,
        constants=constants,
        at=tuple(dict(zip(entry["at"], sizes, strict=True)) for sizes in columns),
        opset=int(entry.get("opset", OPSET)),
        new=entry.get("new", False),
        steps=entry.get("steps", 0),
        unordered=entry.get("unordered", False),
    )


@cache
def table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = yaml.safe_load(TABLE.read_text())
    return table


@cache
def cases() -> tuple[Case, ...]:
    return tuple(case for entry in table()["cases"] for case in of_entry(entry))


def exempt() -> dict[str, str]:
    """Operators without a case, and why."""
    return {operator: group["reason"] for group in table()["exempt"] for operator in group["operators"]}


def without_kernel() -> list[str]:
    """Operators that are exempt since peers have no kernel for processors, which can be looked up."""
    return [operator for operator, reason in exempt().items() if reason == NO_KERNEL]
