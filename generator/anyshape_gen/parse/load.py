"""Loads spec files: checks keys, merges families, and calls the parser of every text.

In: paths and their contents. Out: the parsed model and the findings of parsing; `check` checks the meaning afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import reduce

from anyshape_gen.model.functions import FUNCTIONS
from anyshape_gen.model.nodes import Function, Name, Node
from anyshape_gen.model.source import Findings, Span
from anyshape_gen.model.spec import OnnxMapping, OpSpec, Oracle, Reference, SpecFile, TermFunction
from anyshape_gen.model.traverse import reachable
from anyshape_gen.parse.entries import (
    algorithms,
    dtype_rules,
    matrices,
    operands,
    operator_sign,
    param_spec,
    refusals,
    rewrites,
    rotations,
    traits,
    weaknesses,
)
from anyshape_gen.parse.kernel import parse_kernel, parse_procedure
from anyshape_gen.parse.keys import FAMILY_KEYS, FILE_KEYS, OP_KEYS
from anyshape_gen.parse.layout import read_layout
from anyshape_gen.parse.node_reader import NodeReader
from anyshape_gen.parse.onnx import MappingReader, TermReader
from anyshape_gen.parse.rules import RuleReader
from anyshape_gen.parse.spellings import spellings
from anyshape_gen.parse.text import Text
from anyshape_gen.parse.values import is_family, parse_example, parse_oracles, parse_reference, parse_view
from anyshape_gen.parse.versions import read_spec
from anyshape_gen.parse.yaml_source import YMap, YNode, YScalar, YSeq

MERGED = ("inputs", "params", "outputs", "dtypes", "onnx", "aten")
"""Entries that both an op and its family may have; the op's keys replace those of the family one by one"""


COLUMNS = 140
"""The longest line of a spec file"""
DEEPEST = 4
"""The most families that an op is of, each of the next"""


def load_library(path: str, content: str, findings: Findings) -> tuple[Function, ...]:
    """Parses the functions that one file defines for all files."""
    root = read_spec(path, content, findings)
    loader = _Loader(NodeReader(findings))
    return tuple(loader.functions(root.get("library")).values()) if isinstance(root, YMap) else ()


def check_recursion(functions: Iterable[Function], known: Mapping[str, Function], findings: Findings) -> None:
    """Checks that functions, which are inlined, do not call themselves, directly or through `known` ones."""
    for f in functions:
        if f.name in {called.name for called in reachable([f], known)}:
            findings.add(f.span, f"the function '{f.name}' calls itself; a function is inlined where it is called")


def load_file(path: str, content: str, findings: Findings, library: Mapping[str, Function] | None = None) -> SpecFile:
    """Parses one file, as far as it has no errors. `library`: the functions that all files may call."""
    root = read_spec(path, content, findings)
    for number, line in enumerate(content.split("\n"), 1):
        if len(line) > COLUMNS:
            findings.add(
                Span(path, number, COLUMNS + 1, len(line) + 1),
                f"a line has at most {COLUMNS} columns, this one has {len(line)}: break it inside brackets",
            )
    if not isinstance(root, YMap):
        if root is not None:
            findings.add(root.span, "a spec file is a mapping with `ops:`")
        return SpecFile(path, ())
    reader = NodeReader(findings)
    loader = _Loader(reader, library or {})
    reader.known_keys(root, FILE_KEYS, "a spec file")
    shared = loader.functions(root.get("define"))
    oracles = reader.parsed(root.get("oracles"), parse_oracles) or ()
    findings.distinct("the oracle", ((o.name, o.span) for o in oracles))
    loader.oracles = {o.name: o for o in oracles}
    terms = loader.term_functions(root.get("terms"))
    loader.terms = {f.name: f for f in terms}
    loader.families = {key.text.value: value for key, value in reader.entries(root.get("families"))}
    read_ops = [loader.op(key, value, shared) for key, value in reader.entries(root.get("ops"))]
    ops = [op for op in read_ops if op is not None]
    if len(ops) == len(read_ops):
        # Otherwise an op that could not be parsed may use it.
        loader.uncalled(shared, ops)
        for name, oracle in loader.oracles.items():
            if name not in loader.asked:
                findings.add(oracle.span, f"the oracle '{name}' is never called")
        for key, _ in reader.entries(root.get("families")):
            if key.text.value not in loader.used:
                findings.add(key.span, f"no op of this file is of the family '{key.text.value}'")
    mappings = tuple(loader.mappings(root.get("onnx"), ()))
    aten = tuple(loader.aten(root.get("aten"), ()))
    refused, refused_aten = (tuple(refusals(reader, root.get(key))) for key in ("refused", "refused_aten"))
    file = SpecFile(path, tuple(ops), mappings, terms, refused, aten, refused_aten)
    if len(ops) == len(read_ops):
        called = {f.name for m in (*file.all_onnx, *file.all_aten) for f in m.functions}
        for name, term in loader.terms.items():
            if name not in called:
                findings.add(term.span, f"the function '{name}' is never called")
    return file


@dataclass
class _Loader:
    reader: NodeReader
    library: Mapping[str, Function] = field(default_factory=dict)
    _: KW_ONLY
    oracles: dict[str, Oracle] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    terms: dict[str, TermFunction] = field(default_factory=dict)
    families: dict[str, YNode] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    """families that an op is of, directly or by way of another"""

    @property
    def findings(self) -> Findings:
        return self.reader.findings

    def uncalled(self, functions: dict[str, Function], ops: list[OpSpec]) -> None:
        """Checks that each function is called by an op."""
        called = {function.name for op in ops for function in op.defines}
        for name, function in functions.items():
            if name not in called:
                self.findings.add(function.span, f"the function '{name}' is never called")

    def reference(self, text: Text, findings: Findings) -> Reference:
        """Parses a reference, and resolves the oracles that it calls."""
        reference = parse_reference(text, findings)
        called: dict[str, Oracle] = {}
        self._calls(reference.reads, called)
        self.asked |= set(called)
        listed = tuple(o for o in self.oracles.values() if o.name in called)
        return replace(reference, reads=tuple(r for r in reference.reads if r.id not in self.oracles), oracles=listed)

    def _calls(self, reads: tuple[Name, ...], called: dict[str, Oracle]) -> None:
        for read in reads:
            oracle = self.oracles.get(read.id)
            if oracle is not None and oracle.name not in called:
                called[oracle.name] = oracle
                self._calls(oracle.reads, called)

    def functions(self, node: YNode | None) -> dict[str, Function]:
        text = self.reader.text(node)
        functions = RuleReader(text, self.findings).parse_functions() if text else ()
        self.findings.distinct("the function", ((function.name, function.span) for function in functions))
        for function in functions:
            if function.name in FUNCTIONS:
                self.findings.add(function.span, f"'{function.name}' is a function of the language; use another name")
            set_here = [(name, assign.span) for assign in function.body for name in assign.names]
            self.findings.distinct("the name", [*((arg, function.span) for arg in function.args), *set_here])
        return {function.name: function for function in functions}

    def term_functions(self, node: YNode | None) -> tuple[TermFunction, ...]:
        text = self.reader.text(node)
        return TermReader(text, self.findings).parse_terms() if text else ()

    def families_of(self, entry: YMap) -> list[YMap] | None:
        """Returns the families that an entry is of, the widest first; None (with a finding) where one is unknown."""
        families: dict[str, YMap] = {}
        while (name := self.reader.text(entry.get("family"))) is not None:
            node = self.families.get(name.value)
            if node is None:
                self.findings.unknown(name.span(), "family", name.value, self.families)
                return None
            if name.value in families:
                self.findings.add(name.span(), f"a family of itself: {' of '.join((*families, name.value))}")
                return None
            if len(families) == DEEPEST:
                self.findings.add(name.span(), f"families of families are at most {DEEPEST} deep")
                return None
            self.used.add(name.value)
            entry = families[name.value] = YMap(self.reader.entries(node), node.span)
            self.reader.known_keys(entry, FAMILY_KEYS, f"family '{name.value}'")
        return [*reversed(families.values())]

    def op(self, key: YScalar, node: YNode, shared: dict[str, Function]) -> OpSpec | None:
        own = YMap(self.reader.entries(node), node.span)
        self.reader.known_keys(own, OP_KEYS, f"op '{key.text.value}'")
        families = self.families_of(own)
        if families is None:
            return None
        base = reduce(lambda wider, family: merge(family, wider), families, YMap((), node.span))
        before = self.findings.unreadable
        own_functions = self.functions(own.get("define"))
        of_family = {name: f for family in families for name, f in self.functions(family.get("define")).items()}
        shared_and_own = [*shared.values(), *({**of_family, **own_functions}).values()]
        self.findings.distinct("the function", ((function.name, function.span) for function in shared_and_own))
        for function in shared_and_own:
            if function.name in self.library:
                place = self.library[function.name].span
                self.findings.add(
                    function.span, f"'{function.name}' is a function of the library, at {place}; use another name"
                )
        functions = {**shared, **of_family, **own_functions}
        check_recursion(shared_and_own, functions, self.findings)
        layout, entries = read_layout(self.reader, own, base)
        family = self.reader.text(own.get("family"))
        spec = self._build(key, merge(entries, base), functions, family.value if family else None)
        if self.findings.unreadable != before:
            return None
        if layout.moves and spec.reference is not None and own.get("reference") is None:
            results = tuple(operand.name for operand in spec.outputs)
            spec = replace(spec, reference=layout.reference(spec.reference, results, self.findings))
        if layout.moves:
            of_base = {item.span for item in self.reader.items(base.get("examples"))}
            spec = replace(spec, examples=tuple(layout.example(e) if e.span in of_base else e for e in spec.examples))
        self.uncalled(own_functions, [spec])
        return spec

    def _build(self, key: YScalar, node: YMap, functions: dict[str, Function], family: str | None) -> OpSpec:
        inputs = tuple(operands(self.reader, node.get("inputs"), is_output=False))
        outputs = tuple(operands(self.reader, node.get("outputs"), is_output=True))
        params = tuple(param_spec(self.reader, name, value) for name, value in self.reader.entries(node.get("params")))
        shape = self.reader.parsed(node.get("shape"), lambda text, f: RuleReader(text, f).parse_statements()) or ()
        spec = OpSpec(
            name=key.text.value,
            family=family,
            summary=" ".join(text.value.split()) if (text := self.reader.text(node.get("summary"))) else "",
            inputs=inputs,
            params=params,
            outputs=outputs,
            dtypes=dtype_rules(self.reader, node.get("dtypes"), (*inputs, *outputs)),
            traits=tuple(traits(self.reader, node.get("traits"))),
            defines=(),
            shape=shape,
            kernel=self.reader.parsed(node.get("kernel"), parse_kernel),
            view=parse_view(view, self.findings) if (view := node.get("view")) else (),
            procedure=self.reader.parsed(node.get("procedure"), parse_procedure),
            compose=self.reader.parsed(node.get("compose"), parse_procedure),
            rewrites=tuple(rewrites(self.reader, node.get("rewrites"))),
            reference=self.reader.parsed(node.get("reference"), self.reference),
            onnx=tuple(self.mappings(node.get("onnx"), tuple(operand.name for operand in inputs))),
            examples=(),
            aten=tuple(self.aten(node.get("aten"), tuple(operand.name for operand in inputs))),
            operator=operator_sign(self.reader, node.get("operator")),
            weak=tuple(weaknesses(self.reader, node.get("weak"))),
            bilinear=tuple(matrices(self.reader, node.get("bilinear"))),
            rotations=tuple(rotations(self.reader, node.get("rotations"))),
            algorithms=tuple(algorithms(self.reader, node.get("algorithms"))),
            span=key.span,
        )
        tensors = {operand.name for operand in inputs}
        results = {operand.name for operand in outputs}
        arguments = {param.name for param in params}
        examples = [
            parse_example(item, tensors, results, arguments, self.findings)
            for item in self.reader.items(node.get("examples"))
        ]
        # In a composition, the name of a library's function may be the name of an op.
        bodies = rule_nodes(spec), (() if spec.compose is None else (spec.compose,))
        used = {
            f.name: f
            for of, known in zip(bodies, ({**self.library, **functions}, functions))
            for f in reachable(of, known)
        }
        python = spellings(spec, node.get("python"), self.reader.text(node.get("operator")), self.findings)
        return replace(
            spec,
            defines=tuple(used.values()),
            functions=tuple(dict.fromkeys((*self.library, *functions))),
            python=python,
            examples=tuple(example for example in examples if example is not None),
        )

    def mappings(self, node: YNode | None, inputs: tuple[str, ...]) -> Iterator[OnnxMapping]:
        for op, versions in self.reader.entries(node):
            reader = MappingReader(op.text.value, inputs, self.terms, self.findings)
            for since, value in self.reader.entries(versions):
                if not since.text.value.isdigit():
                    self.findings.add(since.span, "an opset is a number")
                    continue
                opset = int(since.text.value)
                text = self.reader.text(value)
                if text is None or (text.value in ("null", "~", "")):
                    yield OnnxMapping(op.text.value, opset, True, span=since.span)
                else:
                    yield reader.parse(opset, text)

    def aten(self, node: YNode | None, inputs: tuple[str, ...]) -> Iterator[OnnxMapping]:
        """Parses the mappings of ATen operators, which have no versions."""
        for op, value in self.reader.entries(node):
            text = self.reader.text(value)
            if text is None or not text.value:
                self.findings.add(op.span, f"the mapping of '{op.text.value}' is missing")
            else:
                yield MappingReader(op.text.value, inputs, self.terms, self.findings).parse(0, text)


def merge(own: YMap, base: YMap) -> YMap:
    """Merges an entry with that of its family; those in MERGED key by key, in the family's order; the lines of the family's shape rule come
    first; `family` among the examples stands for the family's."""
    values: dict[str, tuple[YScalar, YNode]] = {key.text.value: (key, value) for key, value in base.entries}
    for key, value in own.entries:
        name = key.text.value
        below = values.get(name, (key, value))[1]
        if name in MERGED and isinstance(value, YMap) and isinstance(below, YMap) and below is not value:
            inner = {k.text.value: (k, v) for k, v in below.entries}
            inner |= {k.text.value: (k, v) for k, v in value.entries}
            value = YMap(tuple(inner.values()), value.span)
        if name == "shape" and isinstance(value, YScalar) and isinstance(below, YScalar) and below is not value:
            value = replace(value, text=below.text.followed_by(value.text))
        if name == "examples" and isinstance(value, YSeq) and isinstance(below, YSeq) and below is not value:
            at = next((k for k, item in enumerate(value.items) if is_family(item)), None)
            if at is not None:
                value = YSeq((*value.items[:at], *below.items, *value.items[at + 1 :]), value.span)
        values[name] = (key, value)
    return YMap(tuple(values.values()), own.span)


def rule_nodes(spec: OpSpec) -> tuple[Node, ...]:
    """Lists every node of an op in which a function may be called; a composition is not among them."""
    nodes: list[Node] = [*spec.inputs, *spec.outputs, *spec.params, *spec.shape]
    nodes += [body for body in (spec.kernel, spec.procedure) if body is not None]
    nodes += [rewrite.condition for rewrite in spec.rewrites if rewrite.condition is not None]
    nodes += [algorithm.condition for algorithm in spec.algorithms]
    return tuple(nodes)
