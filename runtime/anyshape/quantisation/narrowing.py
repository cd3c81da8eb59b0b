"""The graph of a model in which constant weights are narrow: nodes that use one by its equation are replaced, and what nothing reads any
more is left out.

In: a model, and which weights become narrow and how. Out: the model, what was replaced, and what was not and why. Graphs in branches and
loops are treated as the model's own; their new tensors are the model's.
"""

from __future__ import annotations

import math
from collections import ChainMap, Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anyshape.dtypes import CHAR, F16, from_numpy
from anyshape.errors import ModelError
from anyshape.frontends.onnx.control import free_names, graph_attributes
from anyshape.frontends.onnx.dtypes import BY_NUMBER, NUMBER_OF
from anyshape.frontends.onnx.embedding import embed, tensors_in
from anyshape.frontends.onnx.inputs import DimBinding
from anyshape.frontends.onnx.named_values import SINCE_DEFAULTS, NamedValues, named_values
from anyshape.frontends.onnx.order import spell_node
from anyshape.frontends.onnx.reader import Source
from anyshape.frontends.onnx.simplified import model_frame, names_in
from anyshape.graph.function import topological
from anyshape.graph.unused_names import unused
from anyshape.graph.value import Value
from anyshape.quantisation.narrow_nodes import CONTRIB, FORMATS, CodeStore, NarrowForm, NarrowNodes, Replaced
from anyshape.quantisation.node_equation import MOST_NODES, is_permutation, node_equation
from anyshape.quantisation.report import KeptReport, WeightReport
from anyshape.quantisation.rounding import Rounding, chunks
from anyshape.quantisation.weight_uses import WEIGHT_DTYPES, WeightUse, weight_use
from anyshape.types import ListType

Array = NDArray[Any]
ValuesByName = Mapping[str, Value | None]


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Which weights become narrow: of at least so many bytes, and none whose name, or whose node's, matches a pattern of `keep`; and
    whether what they are multiplied with may be rounded to bytes."""

    weights: str
    how: Rounding
    least: int
    keep: Sequence[str]
    of_bytes: bool = False


@dataclass(frozen=True, kw_only=True)
class NarrowedWeight:
    """A node with a narrow weight, and what is reported of it. `result` is the name of what it computes, `inside` the place of its graph,
    empty for the model's own."""

    report: WeightReport
    result: str
    inside: str
    written: NarrowNodes


@dataclass(frozen=True, kw_only=True)
class NarrowedModel:
    """The model, and what became of its weights; `before` and `after` are the bytes of all its tensors."""

    model: Any
    narrowed: Sequence[NarrowedWeight]
    kept: Sequence[KeptReport]
    unmatched: Sequence[str]
    """Patterns to keep that no weight and no node matches"""
    before: int
    after: int


def narrowed_model(read: Source, dims: Mapping[str, DimBinding] | None, selection: Selection) -> NarrowedModel:
    """Writes the model with narrow weights. Raises ModelError for a weight with elements that are not finite."""
    return _WeightNarrowing(read, named_values(read, dims), selection).result()


def tensor_bytes(model: Any) -> int:
    """Counts the bytes of all tensors of a model, strings left out."""
    return sum(_bytes_of(t) for t in tensors_in(model))


def _bytes_of(t: Any) -> int:
    known = BY_NUMBER.get(t.data_type)
    return 0 if known is None or known is CHAR else math.prod(t.dims) * known.code_bits // 8


class _WeightNarrowing:
    """The narrowing of one model."""

    def __init__(self, read: Source, known: NamedValues, selection: Selection) -> None:
        self.read, self.known, self.selection = read, known, selection
        self.taken = {*known.values, *names_in(read.model.graph)}
        self.added: list[Any] = []
        self.store = CodeStore(selection.how, self._add, lambda name: unused(name, self.taken), selection.of_bytes)
        self.opset = max((o.version for o in read.model.opset_import if o.domain in ("", "ai.onnx")), default=1)
        self.narrowed: list[NarrowedWeight] = []
        self.kept: list[KeptReport] = []
        self.matched: set[str] = set()
        """Patterns to keep that something matches"""
        self.producers: dict[str, dict[str, Any]] = {}
        """Nodes by their results, of each graph by its place"""
        self.unread: set[str] = set()
        """Operands of nodes that were replaced"""

    def result(self) -> NarrowedModel:
        old = self.read.model
        new = model_frame(old)
        new.functions.extend(old.functions)
        graph = new.graph
        for field in ("node", "input", "output", "quantization_annotation"):
            getattr(graph, field).extend(getattr(old.graph, field))
        dropped = self._narrow(graph, old.graph, self.known, self.known.values)
        results = {name for node in graph.node for name in node.output}
        graph.value_info.extend(i for i in old.graph.value_info if i.name in results)
        for k, t in enumerate(old.graph.initializer):
            if t.name not in dropped:
                graph.initializer.append(t)
                if k in self.read.weights:
                    graph.initializer[-1].raw_data = bytes(self.read.weights[k])
        graph.sparse_initializer.extend(s for s in old.graph.sparse_initializer if s.values.name not in dropped)
        graph.initializer.extend(self.added)
        embed(new, self.read.folder, self.read.name)
        self._declare(new)
        self._note_functions(old)
        return NarrowedModel(
            model=new,
            narrowed=self.narrowed,
            kept=self.kept,
            unmatched=[p for p in self.selection.keep if p not in self.matched],
            before=tensor_bytes(old),
            after=tensor_bytes(new),
        )

    def _declare(self, new: Any) -> None:
        """Imports the domain of the nodes, and makes a version of the file format in which initializers need not be inputs."""
        if any(w.report.decodes for w in self.narrowed) and all(o.domain != CONTRIB for o in new.opset_import):
            new.opset_import.add(domain=CONTRIB, version=1)
        if self.narrowed and new.ir_version < SINCE_DEFAULTS:
            old = self.read.model.graph
            initial = {*(t.name for t in old.initializer), *(s.values.name for s in old.sparse_initializer)}
            inputs = [i for i in new.graph.input if i.name not in initial]
            del new.graph.input[:]
            new.graph.input.extend(inputs)
            new.ir_version = SINCE_DEFAULTS

    def _add(self, name: str, a: Array) -> str:
        import onnx

        free = unused(name, self.taken)
        raw = np.ascontiguousarray(a).astype(a.dtype.newbyteorder("<"), copy=False).tobytes()
        number = NUMBER_OF[from_numpy(a.dtype)]
        self.added.append(onnx.TensorProto(name=free, dims=a.shape, data_type=number, raw_data=raw))
        return free

    # graphs

    def _narrow(self, graph: Any, old: Any, known: NamedValues | None, values: ValuesByName) -> set[str]:
        """Replaces the nodes of a copy of a graph, and of the graphs within; returns the names of tensors that nothing reads any more."""
        if known is None:
            self._note_unknown(old)
            return set()
        live = {name for node in known.nodes for name in node.output if name}
        nodes: list[Any] = []
        for node, original in zip(list(graph.node), old.node, strict=True):
            for a, before in zip(graph_attributes(node), graph_attributes(original), strict=True):
                inner = known.within(original, a.name, before.g)
                around = {} if inner is None else {**inner.around, **inner.values}
                _drop_tensors(a.g, self._narrow(a.g, before.g, inner, ChainMap(around, dict(values))))
            is_live = not live.isdisjoint(original.output)
            nodes += (self._replacement(original, known, values) if is_live else None) or [node]
        nodes, dropped = _without_unread(nodes, [o.name for o in graph.output], self.unread)
        del graph.node[:]
        graph.node.extend(nodes)
        return dropped

    def _note_unknown(self, graph: Any) -> None:
        for t in graph.initializer:
            if _bytes_of(t) >= self.selection.least:
                self._keep("a graph within a node", t.name, _bytes_of(t), "nothing is known of what its graph computes")

    def _note_functions(self, model: Any) -> None:
        for f in model.functions:
            for node in f.node:
                for a in node.attribute:
                    if a.HasField("t") and _bytes_of(a.t) >= self.selection.least:
                        reason = f"it is in the body of function {f.name!r}, which stays as it is"
                        self._keep(spell_node(node), node.output[0], _bytes_of(a.t), reason)

    def _keep(self, node: str, weight: str, size: int, reason: str) -> None:
        self.kept.append(KeptReport(node=node, weight=weight, bytes=size, reason=reason))

    # nodes

    def _replacement(self, node: Any, known: NamedValues, values: ValuesByName) -> Sequence[Any] | None:
        """Returns nodes in place of one that uses a large constant; None for another one."""
        operands = [values.get(name) if name else None for name in node.input]
        fixed = [constants_of(v) is not None for v in operands]
        large = [k for k, v in enumerate(operands) if any(map(self._is_large, constants_of(v) or ()))]
        if not large or all(fixed):
            return None
        name = node.input[large[0]]
        size = max(map(_size, constants_of(operands[large[0]]) or ()))
        where = f"{spell_node(node)}{known.inside}"
        refusal = self._refusal(node, operands, name)
        if refusal:
            self._keep(where, name, size, refusal)
            return None
        stored = [
            self._stored(name, values, known) if is_fixed else values.get(name)
            for name, is_fixed in zip(node.input, fixed)
        ]
        chosen = self._chosen(node, stored, known)
        if isinstance(chosen, str) or not chosen[1].decodes:
            chosen = self._chosen(node, operands, known)
        if isinstance(chosen, str):
            self._keep(where, name, size, chosen)
            return None
        replaced, form = chosen
        self._demand_finite(replaced, where)
        count = len(self.added)
        written = form.write(replaced, self.store)
        if isinstance(written, str):
            self._keep(where, name, size, written)
            return None
        self.unread.update(n for n in node.input if n)
        weight = replaced.use.weight
        self.narrowed.append(
            NarrowedWeight(
                report=WeightReport(
                    node=where,
                    weight=replaced.name,
                    operator=form.operator,
                    decodes=form.decodes,
                    shape=tuple(
                        replaced.use.sizes[replaced.use.order.index(axis)] for axis in range(len(replaced.use.order))
                    ),
                    before=_size(weight),
                    after=sum(len(t.raw_data) for t in self.added[count:]),
                    error=written.error,
                ),
                result=node.output[0],
                inside=known.inside,
                written=written,
            )
        )
        return written.nodes

    def _refusal(self, node: Any, operands: Sequence[Value | None], name: str) -> str:
        """Returns why a node stays whatever it computes; empty for none."""
        called = (node.name, name, spell_node(node))
        matching = [p for p in self.selection.keep if p in called or any(fnmatchcase(text, p) for text in called)]
        if matching:
            self.matched.update(matching)
            return f"it matches the pattern {matching[0]!r}"
        if any(v is None for v, text in zip(operands, node.input, strict=True) if text):
            return "the type of an operand is not known"
        if any(v is not None and isinstance(v.type, ListType) for v in operands):
            return "an operand of its node is a list"
        if any(v is not None and v.type.shape is None for v in operands):
            return "the rank of an operand is not known"
        return "" if len(node.output) == 1 else "its node has several results"

    def _stored(self, name: str, values: ValuesByName, known: NamedValues) -> Value | None:
        """Returns a constant operand as the file stores it: before transpositions, which may have been made already."""
        v, producer = values.get(name), self._producers(known).get(name)
        if v is None or producer is None or len(producer.input) != 1:
            return v
        before = self._stored(producer.input[0], values, known)
        moved = None if before is None or constants_of(before) is None else _first_result(known, producer, [before])
        q = None if moved is None else node_equation(moved)
        return v if q is None or not is_permutation(q) else moved

    def _producers(self, known: NamedValues) -> Mapping[str, Any]:
        """Returns the node of each name of a graph."""
        if known.inside not in self.producers:
            self.producers[known.inside] = {name: node for node in known.nodes for name in node.output if name}
        return self.producers[known.inside]

    def _chosen(
        self, node: Any, operands: Sequence[Value | None], known: NamedValues
    ) -> tuple[Replaced, NarrowForm] | str:
        """How a node uses a weight, and what it becomes; else the reason why it stays."""
        constants = [constants_of(v) for v in operands]
        built = [
            v if v is None or of is not None else Value(v.type, f"operand{k}")
            for k, (v, of) in enumerate(zip(operands, constants, strict=True))
        ]
        result = _first_result(known, node, built)
        equation = None if result is None else node_equation(result)
        use = "its node is not one equation" if equation is None else weight_use(equation)
        if isinstance(use, str):
            return use
        data = next((k for k, v in enumerate(built) if v is use.data and constants[k] is None), None)
        weight = next((k for k, of in enumerate(constants) if any(v is use.weight for v in of or ())), None)
        if data is None or weight is None:
            return "its operands are computed before they are multiplied"
        if not self._is_large(use.weight):
            return "it is no weight of the node's products"
        if use.weight.type.dtype not in WEIGHT_DTYPES:
            return f"it is of {use.weight.type.dtype}; {' and '.join(map(str, WEIGHT_DTYPES))} have a narrow form"
        form = self._form(use)
        if isinstance(form, str):
            return form
        use = replace(use, is_operand=operands[weight] is use.weight)
        return Replaced(node=node, use=use, data=data, weight=weight, name=node.input[weight]), form

    def _form(self, use: WeightUse) -> NarrowForm | str:
        """What a use becomes in this format and opset; else the reason why there is nothing."""
        weights, forms = self.selection.weights, FORMATS[self.selection.weights].forms
        form = forms[use.kind]
        if form is None:
            able = [name for name, f in FORMATS.items() if f.forms[use.kind] is not None]
            where = (
                f"{use.why}, and no node takes a weight of {weights} there"
                if use.why
                else f"no node takes {weights} for it"
            )
            return f"{where}: --weights {' or '.join(able)}"
        least = form.opset_of_f16 if use.weight.type.dtype is F16 else form.opset
        if self.opset < least:
            return f"{form.operator} takes {weights} from opset {least} on, and the model has {self.opset}"
        return form

    def _is_large(self, v: Value) -> bool:
        return v.type.dtype.is_float and _size(v) >= max(1, self.selection.least) and v.type.rank not in (0, 1)

    @staticmethod
    def _demand_finite(r: Replaced, where: str) -> None:
        rows, factor = r.use.rows, np.float32(r.use.factor)
        with np.errstate(over="ignore", invalid="ignore"):
            bad = sum(int((~np.isfinite(rows[a:b].astype(np.float32) * factor)).sum()) for a, b in chunks(rows))
        if bad:
            times = "" if factor == 1 else f" (times {factor:g})"
            raise ModelError(
                f"{where}: weight {r.name!r}{times} has {bad} NaN or infinite of {rows.size} elements, which no scale can stand for; "
                f"keep it as it is with --keep {r.name!r} (keep=[{r.name!r}])"
            )


def _first_result(known: NamedValues, node: Any, operands: Sequence[Value | None]) -> Value | None:
    """Builds a node with other operands; returns its first result, None where it is refused or its operator is not one op."""
    results = known.rebuild(node, operands)
    return results[0] if results else None


def constants_of(v: Value | None) -> Sequence[Value] | None:
    """Lists the constants that a value is computed from, if nothing else; None for other values."""
    if v is None or isinstance(v.type, ListType):
        return None
    if v.node is None:
        return [v] if v.is_constant else None
    nodes = topological([v])
    if len(nodes) > MOST_NODES:
        return None
    computed = {o for n in nodes for o in n.outputs}
    leaves = dict.fromkeys(i for n in nodes for i in n.inputs if i is not None and i not in computed)
    return list(leaves) if all(i.is_constant for i in leaves) else None


def _size(v: Value) -> int:
    return 0 if v.constant is None else v.constant.nbytes


def _drop_tensors(graph: Any, names: set[str]) -> None:
    """Removes tensors from a graph within a node."""
    dense = [t for t in graph.initializer if t.name not in names]
    sparse = [t for t in graph.sparse_initializer if t.values.name not in names]
    for tensors, kept in ((graph.initializer, dense), (graph.sparse_initializer, sparse)):
        if len(kept) < len(tensors):
            del tensors[:]
            tensors.extend(kept)


def _without_unread(nodes: Sequence[Any], results: Sequence[str], candidates: set[str]) -> tuple[list[Any], set[str]]:
    """Leaves out nodes of which no result is read, if one is among the candidates, and then what they alone read; returns the nodes that
    stay, and candidates that are neither read nor results of a node."""
    reads = Counter(results)
    reads.update(name for node in nodes for name in free_names((node,)))
    producer = {name: k for k, node in enumerate(nodes) for name in node.output if name}
    removed: set[int] = set()
    unread: set[str] = set()
    waiting = sorted(candidates)
    while waiting:
        name = waiting.pop()
        if reads[name]:
            continue
        k = producer.get(name)
        if k is None:
            unread.add(name)
        elif k not in removed and not any(reads[o] for o in nodes[k].output):
            removed.add(k)
            operands = free_names((nodes[k],))
            reads.subtract(operands)
            waiting += operands
    return [node for k, node in enumerate(nodes) if k not in removed], unread
