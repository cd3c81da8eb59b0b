"""Loads spec files: checks keys, merges families, and calls the parser of every text.

In: paths and their contents. Out: the parsed model and the findings of parsing; `check` checks the meaning afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeVar

from anyshape_gen.functions import FUNCTIONS
from anyshape_gen.keys import ALGORITHM_KEYS, FILE_KEYS, LAWS, MATRICES, OP_KEYS, PARAM_KEYS, TRAITS, Key, names
from anyshape_gen.model import (
    Algorithm,
    DtypeRule,
    Kind,
    Matrix,
    OnnxMapping,
    OnnxRefusal,
    Operand,
    OpSpec,
    Oracle,
    ParamSpec,
    Reference,
    Rewrite,
    SpecFile,
    TermFunction,
    Turn,
    Weakness,
)
from anyshape_gen.nodes import Function, Name, Node
from anyshape_gen.parse_kernel import parse_kernel, parse_procedure
from anyshape_gen.parse_onnx import MappingReader, TermReader
from anyshape_gen.parse_rewrites import parse_rewrite
from anyshape_gen.parse_rules import SIGNS, RuleReader, parse_expression
from anyshape_gen.parse_signature import parse_kind, parse_signature
from anyshape_gen.parse_spellings import spellings
from anyshape_gen.parse_values import (
    CLASSES,
    DEFAULT_CLASSES,
    DTYPES,
    OTHER_DTYPES,
    parse_default,
    parse_dtype_rule,
    parse_example,
    parse_oracles,
    parse_reference,
    parse_view,
)
from anyshape_gen.source import NOWHERE, Findings, Span
from anyshape_gen.text import Text
from anyshape_gen.traverse import reachable
from anyshape_gen.yaml_source import YMap, YNode, YScalar, YSeq, read_yaml

T = TypeVar("T")
MERGED = ("inputs", "params", "outputs", "dtypes", "onnx", "aten")
"""Entries that both an op and its family may have; the op's keys replace those of the family one by one"""


COLUMNS = 140
"""The longest line of a spec file"""


def load_library(path: str, content: str, findings: Findings) -> tuple[Function, ...]:
    """Parses the functions that one file defines for all files."""
    root = read_yaml(path, content, findings)
    return tuple(_Loader(findings).functions(root.get("library")).values()) if isinstance(root, YMap) else ()


def check_recursion(functions: Iterable[Function], known: Mapping[str, Function], findings: Findings) -> None:
    """Checks that functions, which are inlined, do not call themselves, directly or through `known` ones."""
    for f in functions:
        if f.name in {called.name for called in reachable([f], known)}:
            findings.add(f.span, f"the function '{f.name}' calls itself; a function is inlined where it is called")


def load_file(path: str, content: str, findings: Findings, library: Mapping[str, Function] | None = None) -> SpecFile:
    """Parses one file, as far as it has no errors. `library`: the functions that all files may call."""
    root = read_yaml(path, content, findings)
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
    loader = _Loader(findings, library or {})
    loader.known_keys(root, FILE_KEYS, "a spec file")
    shared = loader.functions(root.get("define"))
    oracles = loader.parsed(root.get("oracles"), parse_oracles) or ()
    findings.distinct("the oracle", ((o.name, o.span) for o in oracles))
    loader.oracles = {o.name: o for o in oracles}
    terms = loader.term_functions(root.get("terms"))
    loader.terms = {f.name: f for f in terms}
    families = {key.text.value: value for key, value in loader.entries(root.get("families"))}
    read_ops = [loader.op(key, value, families, shared) for key, value in loader.entries(root.get("ops"))]
    ops = [op for op in read_ops if op is not None]
    if len(ops) == len(read_ops):
        # Otherwise an op that could not be parsed may use it.
        loader.uncalled(shared, ops)
        for name, oracle in loader.oracles.items():
            if name not in loader.asked:
                findings.add(oracle.span, f"the oracle '{name}' is never called")
        used = {op.family for op in ops}
        for key, _ in loader.entries(root.get("families")):
            if key.text.value not in used:
                findings.add(key.span, f"no op of this file is of the family '{key.text.value}'")
    mappings = tuple(loader.mappings(root.get("onnx"), ()))
    aten = tuple(loader.aten(root.get("aten"), ()))
    refused, refused_aten = (tuple(loader.refusals(root.get(key))) for key in ("refused", "refused_aten"))
    file = SpecFile(path, tuple(ops), mappings, terms, refused, aten, refused_aten)
    if len(ops) == len(read_ops):
        called = {f.name for m in (*file.all_onnx, *file.all_aten) for f in m.functions}
        for name, term in loader.terms.items():
            if name not in called:
                findings.add(term.span, f"the function '{name}' is never called")
    return file


@dataclass
class _Loader:
    findings: Findings
    library: Mapping[str, Function] = field(default_factory=dict)
    oracles: dict[str, Oracle] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)
    terms: dict[str, TermFunction] = field(default_factory=dict)

    # --- shapes of YAML
    # -----------------------------------------------------------------------------------------------------

    def known_keys(self, node: YMap, keys: tuple[Key, ...], where: str) -> None:
        for key, _ in node.entries:
            if key.text.value not in names(keys):
                self.findings.unknown(key.span, "key", key.text.value, names(keys), f" in {where}")

    def entries(self, node: YNode | None) -> tuple[tuple[YScalar, YNode], ...]:
        """Returns the entries of a mapping; none where the node is missing."""
        if isinstance(node, YMap):
            return node.entries
        if node is not None and not (isinstance(node, YScalar) and not node.text.value):
            self.findings.add(node.span, "a mapping is expected here")
        return ()

    def items(self, node: YNode | None) -> tuple[YNode, ...]:
        if isinstance(node, YSeq):
            return node.items
        if node is not None:
            self.findings.add(node.span, "a list is expected here")
        return ()

    def text(self, node: YNode | None) -> Text | None:
        if isinstance(node, YScalar):
            return node.text
        if node is not None:
            self.findings.add(node.span, "a text is expected here")
        return None

    def parsed(self, node: YNode | None, parse: Callable[[Text, Findings], T]) -> T | None:
        text = self.text(node)
        return None if text is None else parse(text, self.findings)

    # --- entries of an op
    # ---------------------------------------------------------------------------------------------------

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
        text = self.text(node)
        functions = RuleReader(text, self.findings).parse_functions() if text else ()
        self.findings.distinct("the function", ((function.name, function.span) for function in functions))
        for function in functions:
            if function.name in FUNCTIONS:
                self.findings.add(function.span, f"'{function.name}' is a function of the language; use another name")
            set_here = [(name, assign.span) for assign in function.body for name in assign.names]
            self.findings.distinct("the name", [*((arg, function.span) for arg in function.args), *set_here])
        return {function.name: function for function in functions}

    def term_functions(self, node: YNode | None) -> tuple[TermFunction, ...]:
        text = self.text(node)
        return TermReader(text, self.findings).parse_terms() if text else ()

    def op(self, key: YScalar, node: YNode, families: dict[str, YNode], shared: dict[str, Function]) -> OpSpec | None:
        own = YMap(self.entries(node), node.span)
        self.known_keys(own, OP_KEYS, f"op '{key.text.value}'")
        family = self.text(own.get("family"))
        base = YMap((), node.span)
        if family is not None:
            entry = families.get(family.value)
            if entry is None:
                self.findings.unknown(family.span(), "family", family.value, families)
                return None
            base = YMap(self.entries(entry), entry.span)
            self.known_keys(base, OP_KEYS, f"family '{family.value}'")
        before = self.findings.unreadable
        own_functions = self.functions(own.get("define"))
        of_family = self.functions(base.get("define"))
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
        spec = self._build(key, merge(own, base), functions, family.value if family else None)
        if self.findings.unreadable != before:
            return None
        self.uncalled(own_functions, [spec])
        return spec

    def _build(self, key: YScalar, node: YMap, functions: dict[str, Function], family: str | None) -> OpSpec:
        inputs = tuple(self._operands(node.get("inputs"), is_output=False))
        outputs = tuple(self._operands(node.get("outputs"), is_output=True))
        params = tuple(self._param(name, value) for name, value in self.entries(node.get("params")))
        shape = self.parsed(node.get("shape"), lambda text, f: RuleReader(text, f).parse_statements()) or ()
        spec = OpSpec(
            name=key.text.value,
            family=family,
            summary=" ".join(text.value.split()) if (text := self.text(node.get("summary"))) else "",
            inputs=inputs,
            params=params,
            outputs=outputs,
            dtypes=self._dtypes(node.get("dtypes"), (*inputs, *outputs)),
            traits=tuple(self._traits(node.get("traits"))),
            defines=(),
            shape=shape,
            kernel=self.parsed(node.get("kernel"), parse_kernel),
            view=parse_view(view, self.findings) if (view := node.get("view")) else (),
            procedure=self.parsed(node.get("procedure"), parse_procedure),
            compose=self.parsed(node.get("compose"), parse_procedure),
            rewrites=tuple(self._rewrites(node.get("rewrites"))),
            reference=self.parsed(node.get("reference"), self.reference),
            onnx=tuple(self.mappings(node.get("onnx"), tuple(operand.name for operand in inputs))),
            examples=(),
            aten=tuple(self.aten(node.get("aten"), tuple(operand.name for operand in inputs))),
            operator=self.sign(node.get("operator")),
            weak=tuple(self._weak(node.get("weak"))),
            bilinear=tuple(self._matrices(node.get("bilinear"))),
            turns=tuple(self._turns(node.get("turns"))),
            algorithms=tuple(self._algorithms(node.get("algorithms"))),
            span=key.span,
        )
        tensors = {operand.name for operand in inputs}
        results = {operand.name for operand in outputs}
        arguments = {param.name for param in params}
        examples = [
            parse_example(item, tensors, results, arguments, self.findings) for item in self.items(node.get("examples"))
        ]
        # In a composition, the name of a library's function may be the name of an op.
        bodies = rule_nodes(spec), (() if spec.compose is None else (spec.compose,))
        used = {
            f.name: f
            for of, known in zip(bodies, ({**self.library, **functions}, functions))
            for f in reachable(of, known)
        }
        python = spellings(spec, node.get("python"), self.text(node.get("operator")), self.findings)
        return replace(
            spec,
            defines=tuple(used.values()),
            functions=tuple(dict.fromkeys((*self.library, *functions))),
            python=python,
            examples=tuple(example for example in examples if example is not None),
        )

    def _operands(self, node: YNode | None, is_output: bool) -> Iterator[Operand]:
        for key, value in self.entries(node):
            signature = self.parsed(value, lambda text, f: parse_signature(text, f, is_output))
            if signature is not None:
                yield Operand(key.text.value, signature, span=key.span)

    def _param(self, key: YScalar, node: YNode) -> ParamSpec:
        name = key.text.value
        if isinstance(node, YScalar):
            return ParamSpec(name, parse_kind(node.text, self.findings), span=key.span)
        entry = YMap(self.entries(node), node.span)
        self.known_keys(entry, PARAM_KEYS, f"parameter '{name}'")
        kind = self._kind(entry.get("kind"), key)
        default, of = entry.get("default"), entry.get("of")
        dyn = self.text(entry.get("dyn"))
        if dyn is not None and kind.base in ("str", "strs"):
            self.findings.add(dyn.span(), "a string is known when a graph is built: no operand holds one")
        if dyn is not None and dyn.value != "operand":
            self.findings.add(dyn.span(), "`dyn:` can only be `operand`")
        empty = self.parsed(entry.get("empty"), parse_expression)
        if empty is not None and (default is None or kind.base not in ("axes", "ints", "floats")):
            self.findings.add(empty.span, "`empty:` is for a vector with a default: an empty one then stands for it")
        return ParamSpec(
            name,
            kind,
            default=parse_default(kind, default, self.findings) if isinstance(default, YScalar) else None,
            dyn=dyn is not None,
            of=self.parsed(of, parse_expression),
            empty=empty,
            span=key.span,
        )

    def _kind(self, node: YNode | None, key: YScalar) -> Kind:
        if isinstance(node, YSeq):
            members = tuple(item.text.value for item in node.items if isinstance(item, YScalar))
            self.findings.distinct("the member", ((i.text.value, i.span) for i in node.items if isinstance(i, YScalar)))
            if not members:
                self.findings.add(node.span, "an enumeration lists its members")
            return Kind("enum", members, span=node.span)
        if node is None:
            self.findings.add(key.span, f"parameter '{key.text.value}' has no kind")
            return Kind("int", span=key.span)
        return self.parsed(node, parse_kind) or Kind("int", span=node.span)

    def _dtypes(self, node: YNode | None, operands: tuple[Operand, ...]) -> tuple[DtypeRule, ...]:
        rules = {}
        for key, value in self.entries(node):
            rule = parse_dtype_rule(key.text.value, value, self.findings)
            if rule is not None:
                rules[rule.var] = rule
        used = dict.fromkeys(operand.signature.dtype for operand in operands)
        for operand in operands:
            var = operand.signature.dtype
            if var in rules or var in DTYPES or var in OTHER_DTYPES:
                continue
            if var not in DEFAULT_CLASSES:
                known = [*rules, *DEFAULT_CLASSES, *DTYPES, *OTHER_DTYPES]
                self.findings.unknown(operand.signature.span, "dtype", var, known)
            choices = CLASSES[DEFAULT_CLASSES[var]] if var in DEFAULT_CLASSES else ()
            rules[var] = DtypeRule(var, choices, span=operand.signature.span)
        # The rules are in the order of the signature; a family's rule for a variable that the op does not use is left out.
        return tuple(rules[var] for var in [*used, *(v for v in rules if v not in used)] if var in rules)

    def _traits(self, node: YNode | None) -> Iterator[str]:
        self.findings.distinct(
            "the trait", ((i.text.value, i.span) for i in self.items(node) if isinstance(i, YScalar))
        )
        for item in self.items(node):
            text = self.text(item)
            if text is not None and text.value not in TRAITS:
                self.findings.unknown(text.span(), "trait", text.value, TRAITS)
            elif text is not None:
                yield text.value

    def sign(self, node: YNode | None) -> str:
        """Parses the sign that means an op, if it has one."""
        text = self.text(node)
        if text is None:
            return ""
        if text.value not in SIGNS:
            self.findings.unknown(text.span(), "operator", text.value, SIGNS)
        return text.value

    def _rewrites(self, node: YNode | None) -> Iterator[Rewrite]:
        for item in self.items(node):
            rewrite = self.parsed(item, parse_rewrite)
            if rewrite is not None:
                yield rewrite

    def _weak(self, node: YNode | None) -> Iterator[Weakness]:
        for law, value in self.entries(node):
            reason = " ".join(text.value.split()) if (text := self.text(value)) is not None else ""
            if law.text.value not in LAWS:
                self.findings.unknown(law.span, "law", law.text.value, LAWS)
            if not reason:
                self.findings.add(law.span, f"the reason why law {law.text.value} is weak here is missing")
            yield Weakness(law.text.value, reason, span=law.span)

    def _matrices(self, node: YNode | None) -> Iterator[Matrix]:
        entries = self.entries(node)
        for key, _ in entries:
            if key.text.value not in MATRICES:
                self.findings.unknown(key.span, "matrix", key.text.value, MATRICES)
        by_name = {key.text.value: (key, value) for key, value in entries}
        for name in MATRICES if node is not None else ():
            key_span = node.span if node is not None else NOWHERE
            if name not in by_name:
                self.findings.add(key_span, f"the matrix '{name}' is missing")
                continue
            key, value = by_name[name]
            rows = tuple(tuple(map(self._rational, self.items(row))) for row in self.items(value))
            if not rows or not rows[0] or any(len(row) != len(rows[0]) for row in rows):
                self.findings.add(key.span, f"the rows of '{name}' must have one length, and there must be some")
                rows = ((Fraction(0),),)
            yield Matrix(name, rows, span=key.span)

    def _rational(self, node: YNode) -> Fraction:
        text = self.text(node)
        try:
            return Fraction(text.value) if text is not None else Fraction(0)
        except (ValueError, ZeroDivisionError):
            self.findings.add(node.span, "an element of a matrix is a number or a fraction, such as 2 or 1/4")
            return Fraction(0)

    def _turns(self, node: YNode | None) -> Iterator[Turn]:
        for key, value in self.entries(node):
            parts = [self.parsed(item, parse_expression) for item in self.items(value)]
            match parts:
                case [first, second, size] if first and second and size:
                    yield Turn(key.text.value, first, second, size, span=key.span)
                case _:
                    self.findings.add(key.span, "a turn is `[place, place, size]`")

    def _algorithms(self, node: YNode | None) -> Iterator[Algorithm]:
        for key, value in self.entries(node):
            entry = YMap(self.entries(value), value.span)
            self.known_keys(entry, ALGORITHM_KEYS, f"algorithm '{key.text.value}'")
            condition = self.parsed(entry.get("if"), parse_expression)
            constant = self.text(entry.get("constant"))
            if condition is None or constant is None:
                self.findings.add(key.span, "an algorithm has a condition, `if:`, and an input, `constant:`")
                continue
            yield Algorithm(key.text.value, condition, constant.value, span=key.span)

    def mappings(self, node: YNode | None, inputs: tuple[str, ...]) -> Iterator[OnnxMapping]:
        for op, versions in self.entries(node):
            reader = MappingReader(op.text.value, inputs, self.terms, self.findings)
            for since, value in self.entries(versions):
                if not since.text.value.isdigit():
                    self.findings.add(since.span, "an opset is a number")
                    continue
                opset = int(since.text.value)
                text = self.text(value)
                if text is None or (text.value in ("null", "~", "")):
                    yield OnnxMapping(op.text.value, opset, True, span=since.span)
                else:
                    yield reader.parse(opset, text)

    def aten(self, node: YNode | None, inputs: tuple[str, ...]) -> Iterator[OnnxMapping]:
        """Parses the mappings of ATen operators, which have no versions."""
        for op, value in self.entries(node):
            text = self.text(value)
            if text is None or not text.value:
                self.findings.add(op.span, f"the mapping of '{op.text.value}' is missing")
            else:
                yield MappingReader(op.text.value, inputs, self.terms, self.findings).parse(0, text)

    def refusals(self, node: YNode | None) -> Iterator[OnnxRefusal]:
        for op, value in self.entries(node):
            reason = " ".join(text.value.split()) if (text := self.text(value)) is not None else ""
            if not reason:
                self.findings.add(op.span, f"the reason why '{op.text.value}' is refused is missing")
            yield OnnxRefusal(op.text.value, reason, span=op.span)


def merge(own: YMap, base: YMap) -> YMap:
    """Merges the op's entries with the family's; those in MERGED key by key, in the family's order; the lines of the family's shape rule
    come first."""
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
        values[name] = (key, value)
    return YMap(tuple(values.values()), own.span)


def rule_nodes(spec: OpSpec) -> tuple[Node, ...]:
    """Lists every node of an op in which a function may be called; a composition is not among them."""
    nodes: list[Node] = [*spec.inputs, *spec.outputs, *spec.params, *spec.shape]
    nodes += [body for body in (spec.kernel, spec.procedure) if body is not None]
    nodes += [rewrite.condition for rewrite in spec.rewrites if rewrite.condition is not None]
    nodes += [algorithm.condition for algorithm in spec.algorithms]
    return tuple(nodes)
