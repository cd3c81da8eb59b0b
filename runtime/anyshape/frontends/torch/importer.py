"""Imports an FX graph of ATen operators as values: every call by its mapping; one error lists everything that is not supported.

In: the graph, and the values of its placeholders. Out: the values of its outputs. Types are inferred anew, and compared with torch's: a
mapping that gives another dtype or rank than torch refuses the node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NoReturn, overload

from anyshape.dtypes import DType
from anyshape.errors import AnyshapeError, ArgumentError, UnsupportedError
from anyshape.frontends.onnx.refusals import ImportRefusal, Refusals
from anyshape.frontends.torch.control_flow import CONTROL_FLOW
from anyshape.frontends.torch.dtypes import array_of, dtype_of_torch
from anyshape.frontends.torch.node import AtenNode, scalar
from anyshape.frontends.torch.node import Mapping as NodeMapping
from anyshape.frontends.torch.own import own_mapping
from anyshape.graph.value import Value, constant


def operator_name(target: Any) -> str:
    """The name that mappings have for what an FX node calls: `add.Tensor`, `softmax.int`, `relu`, `operator.add`, `torch.sym_max`."""
    schema = getattr(target, "_schema", None)
    if schema is not None:
        name = str(schema.name).removeprefix("aten::")
        return f"{name}.{schema.overload_name}" if schema.overload_name else name
    module = str(getattr(target, "__module__", "?")).removeprefix("_")
    return f"{module}.{getattr(target, '__name__', target)}"


def mapping_of(target: Any) -> NodeMapping | None:
    """The mapping of what an FX node calls; None if there is none."""
    from anyshape_ops.aten import ATEN

    name = operator_name(target)
    return ATEN.get(name) or own_mapping(name)


def why_missing(name: str) -> str:
    """Says why an operator has no mapping."""
    from anyshape_ops.aten import REFUSED

    return REFUSED.get(name, "there is no mapping of it; docs/torch.md lists those that there are")


@dataclass(frozen=True, kw_only=True)
class ImportedCall:
    """The importer's `AtenNode`."""

    source: str
    tensors: Sequence[Value | None]
    numbers: frozenset[int]
    """positions of tensors that were numbers of Python"""
    arguments: Mapping[str, Any]
    """arguments that are no tensors, by name"""
    output_types: Sequence[tuple[DType, int]]
    """dtypes and ranks that torch gives"""
    sizes: set[Value]
    """values that are sizes of torch"""

    @property
    def output_count(self) -> int:
        return len(self.output_types)

    @property
    def output_dtype(self) -> DType:
        if not self.output_types:
            self.refuse("torch says no dtype of its result")
        return self.output_types[0][0]

    def input(self, k: int) -> Value | None:
        return self.tensors[k] if k < len(self.tensors) else None

    def inputs(self, start: int = 0) -> list[Value | None]:
        return list(self.tensors[start:])

    def attr(self, name: str, default: Any = None) -> Any:
        value = self.arguments.get(name)
        return default if value is None else value

    @overload
    def attr_dtype(self, name: str) -> DType | None: ...
    @overload
    def attr_dtype(self, name: str, default: DType) -> DType: ...
    def attr_dtype(self, name: str, default: DType | None = None) -> DType | None:
        value = self.arguments.get(name)
        return default if value is None else dtype_of_torch(value)

    def is_number(self, v: Value) -> bool:
        return v in self.sizes or any(self.tensors[k] is v for k in self.numbers)

    def refuse(self, reason: str) -> NoReturn:
        raise ImportRefusal(reason)


@dataclass
class GraphImport:
    """The import of one FX graph."""

    name: str
    values: dict[Any, Any] = field(default_factory=dict)
    """what each FX node became: a Value, a tuple of them, a number, or None where it could not be computed"""
    sizes: set[Value] = field(default_factory=set)
    """values that are sizes of torch"""
    reasons: dict[Any, str] = field(default_factory=dict)
    """the FX nodes that were refused, and why"""

    def __post_init__(self) -> None:
        self.refusals = Refusals(self.name)

    def run(self, nodes: Sequence[Any]) -> None:
        """Imports all calls among some nodes, in order."""
        for node in nodes:
            if node.op == "call_function":
                self.values[node] = self._call(node)
            elif node.op not in ("placeholder", "output", "get_attr"):
                self._refuse(node, operator_name(node.target), f"an FX node of kind {node.op}")

    def _call(self, node: Any) -> Any:
        if _is_getitem(node):
            return self._item(node)
        name = operator_name(node.target)
        if name in _STATEMENTS:
            return _STATEMENTS[name](self, node)
        if any(a in self.values and self.values[a] is None for a in node.all_input_nodes):
            return None  # of a node that was refused
        try:
            return self._checked(node, self._results(node, name))
        except ImportRefusal as e:
            return self._refuse(node, name, str(e))
        except UnsupportedError as e:
            return self._refuse(node, name, str(e))
        except AnyshapeError as e:
            return self._refuse(node, name, f"it is not what the op takes: {e}")

    def _results(self, node: Any, name: str) -> list[Value]:
        """The results of a call. Raises ImportRefusal where it has no mapping."""
        if name in CONTROL_FLOW:
            count = len(_output_types(node.meta.get("val")))
            return list(CONTROL_FLOW[name](self.region, count, *(self.operand(a) for a in node.args)))
        mapping = mapping_of(node.target)
        if mapping is None:
            raise ImportRefusal(why_missing(name))
        return list(mapping(self.imported(node)))

    def region(self, graph: Any, operands: Sequence[Any]) -> list[Value]:
        """The results of a graph within the graph, on some operands. Raises ImportRefusal where it has a node that is refused."""
        nodes = list(graph.graph.nodes)
        for node, value in zip((n for n in nodes if n.op == "placeholder"), operands, strict=True):
            self.values[node] = value
            if isinstance(value, Value) and _is_size(node.meta.get("val")):
                self.sizes.add(value)
        for node in nodes:
            if node.op == "get_attr":
                self.bind(node, graph)
        self.run(nodes)
        (returned,) = next(n for n in nodes if n.op == "output").args
        results = [self.operand(a) for a in (returned if isinstance(returned, (list, tuple)) else [returned])]
        if any(v is None for v in results):
            raise ImportRefusal("a graph within it has nodes that are not supported")
        return [scalar(v) for v in results]

    def bind(self, node: Any, owner: Any) -> Any:
        """Binds a node that reads an attribute of a graph: a tensor to a constant, a graph within the graph to itself. Returns the
        attribute."""
        import torch

        value = attrgetter(node.target)(owner)
        self.values[node] = (
            constant(array_of(value, node.target), node.target) if isinstance(value, torch.Tensor) else value
        )
        return value

    def _refuse(self, node: Any, name: str, reason: str) -> None:
        self.refusals.add(name, "aten", None, reason, f"node {node.name}")
        self.reasons[node] = reason

    def _item(self, node: Any) -> Any:
        of, k = node.args
        values = self.values[of]
        if values is None or not isinstance(values, tuple):
            return None
        if k >= len(values):
            return self._refuse(of, operator_name(of.target), f"output {k} is not computed")
        return values[k]

    def imported(self, node: Any) -> AtenNode:
        """A call with its operands."""
        schema = getattr(node.target, "_schema", None)
        tensors: list[Value | None] = []
        numbers: set[int] = set()
        arguments: dict[str, Any] = {}

        def tensor(value: Any) -> None:
            value = self.operand(value)
            if value is not None and not isinstance(value, Value):
                numbers.add(len(tensors))
                value = scalar(value)
            tensors.append(value)

        if schema is None:
            for a in node.args:
                for item in a if isinstance(a, (list, tuple)) else [a]:
                    tensor(item)
        else:
            positional = list(node.args)
            for k, declared in enumerate(schema.arguments):
                argument = positional[k] if k < len(positional) else node.kwargs.get(declared.name, _default(declared))
                kind = str(declared.type)
                if "Tensor" not in kind:
                    arguments[declared.name] = self.operand(argument)
                elif kind.startswith("List"):
                    for item in argument:
                        tensor(item)
                else:
                    tensor(argument)
        return ImportedCall(
            source=f"{node.name} ({operator_name(node.target)})",
            tensors=tensors,
            numbers=frozenset(numbers),
            arguments=arguments,
            output_types=_output_types(node.meta.get("val")),
            sizes=self.sizes,
        )

    def operand(self, a: Any) -> Any:
        """An argument of an FX node with values in the place of nodes."""
        import torch

        if isinstance(a, torch.fx.Node):
            return self.values[a]
        if isinstance(a, (list, tuple)):
            return [self.operand(item) for item in a]
        if isinstance(a, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise ImportRefusal(f"a size {a} that no node computes")
        return a

    def _checked(self, node: Any, results: Sequence[Value]) -> Any:
        """The results of a call, as FX has them. Raises ImportRefusal where a type is another one than torch's."""
        said = node.meta.get("val")
        for value, (dtype, rank) in zip(results, _output_types(said)):
            if value.type.dtype is not dtype or value.type.rank not in (rank, None):
                raise ImportRefusal(
                    f"its mapping gives {value.type}, and torch a tensor of rank {rank} and {dtype}; this is a defect of ours"
                )
        if _is_size(said):
            self.sizes.add(results[0])
            return results[0]
        return tuple(results) if isinstance(said, (tuple, list)) else results[0]


def _is_getitem(node: Any) -> bool:
    import operator

    return node.target is operator.getitem


def _is_size(said: Any) -> bool:
    """Whether torch says that a node is a number."""
    import torch

    return isinstance(said, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool))


def _default(declared: Any) -> Any:
    return declared.default_value if declared.has_default_value() else None


def _output_types(said: Any) -> list[tuple[DType, int]]:
    """The dtypes and ranks of what torch's inference says of a node."""
    import torch

    items = said if isinstance(said, (tuple, list)) else [said]
    types: list[tuple[DType, int]] = []
    for item in items:
        if not isinstance(item, torch.Tensor):
            break
        types.append((dtype_of_torch(item.dtype), item.ndim))
    return types


def _assertion(importer: GraphImport, node: Any) -> None:
    """Requires of sizes what torch asserts of them; what else it asserts, our own checks do."""
    from anyshape.graph.require import require

    condition, *message = node.args
    value = importer.operand(condition)
    if isinstance(value, Value):
        try:
            require(value, str(message[0]) if message else "an assertion of the model", node.name)
        except ArgumentError:
            importer._refuse(
                node, operator_name(node.target), "it asserts a condition on elements; only ones on sizes are supported"
            )


def _nothing(importer: GraphImport, node: Any) -> None:
    """A node that computes nothing: bounds of sizes that our types have already, metadata that we infer."""


_STATEMENTS = {
    "_assert_scalar": _assertion,
    "_assert_tensor_metadata": _nothing,
    "sym_constrain_range_for_size": _nothing,
    "sym_constrain_range": _nothing,
}
"""Operators without results, by what they demand"""
