"""Checks the meaning and the completeness of one op.

In: an `OpSpec`, the solved kinds of its names, the names of all ops. Out: findings, all of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from anyshape_gen.check.dtypes import check_dtypes
from anyshape_gen.check.identifiers import check_identifiers
from anyshape_gen.check.kernel import check_kernel
from anyshape_gen.check.kinds import check_kinds
from anyshape_gen.check.mappings import check_mappings
from anyshape_gen.check.names import NameChecker
from anyshape_gen.check.procedure import check_procedure
from anyshape_gen.check.random import check_random
from anyshape_gen.check.sequence import check_sequences
from anyshape_gen.check.traits import check_traits
from anyshape_gen.model.analysis import ValueKind
from anyshape_gen.model.nodes import Assert, Assign, If, Index, Name, Node, NoneLit, Statement, Str, Unbacked
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import Dim, DimExpr, Operand, OpSpec, Piece, Product, Ragged, Run
from anyshape_gen.model.traverse import calls, children, free_names, unbacked_sizes, walk, walk_all
from anyshape_gen.parse.keys import FORMS_OF_BODY
from anyshape_gen.resolve.searches import check_searches
from anyshape_gen.resolve.solve import piece_names

K = ValueKind
SUMMARY = 200
"""The most characters of a summary"""


# --- what must be there -------------------------------------------------------------------------------------------


def check_completeness(spec: OpSpec, findings: Findings) -> None:
    """Checks that an op has a body, a reference and examples."""
    name = spec.name
    bodies = _bodies(spec)
    if not bodies:
        findings.add(spec.span, f"op '{name}' has no body: add one of {', '.join(FORMS_OF_BODY)}")
    if not spec.outputs:
        findings.add(spec.span, f"op '{name}' has no outputs")
    if not spec.summary:
        findings.add(spec.span, f"op '{name}' has no summary")
    if len(spec.summary) > SUMMARY:
        findings.add(
            spec.span,
            f"the summary of '{name}' has {len(spec.summary)} characters; it heads lists and docstrings, and has at most {SUMMARY}",
        )
    if spec.reference is None:
        findings.add(spec.span, f"op '{name}' has no reference, with which its tests compare its results")
    if not any(example.error is None for example in spec.examples):
        findings.add(spec.span, f"op '{name}' has no example with outputs")
    variadic = {o.name for o in (*spec.inputs, *spec.outputs) if o.signature.variadic is not None}
    for operand, value in (pair for e in spec.examples for pair in (*e.arguments, *e.expected)):
        if operand in variadic and not isinstance(value.value, tuple):
            findings.add(
                value.span,
                f"'{operand}' is several tensors, so its value is a list of their values, got {value.value!r}",
            )
    errors = [example.error for example in spec.examples if example.error is not None]
    for node in _asserts(spec.shape):
        if node.message is None:
            findings.add(node.span, 'an assert needs a message: `assert cond, "what is wrong with {value}"`')
        elif not any(_matches(node, error) for error in errors):
            findings.add(node.span, "no example with `error:` violates this assert")
    for param in spec.params:
        for member in param.kind.members:
            if not _has_example(spec, param.name, member, param.default):
                findings.add(param.span, f"no example has {param.name}: {member}")


def _bodies(spec: OpSpec) -> list[str]:
    bodies = {"kernel": spec.kernel, "view": spec.view, "procedure": spec.procedure, "compose": spec.compose}
    return [name for name, body in bodies.items() if body]


def _asserts(statements: tuple[Statement, ...]) -> Iterator[Assert]:
    for statement in statements:
        if isinstance(statement, Assert):
            yield statement
        elif isinstance(statement, If):
            yield from _asserts(statement.then)
            yield from _asserts(statement.other)


def _nested_asserts(spec: OpSpec, findings: Findings) -> None:
    """Checks that no assert that reads elements stands in a branch of the rule: such asserts are the kernel's, which has no such branch."""
    tensors = {operand.name for operand in spec.inputs}
    for node in _asserts(tuple(statement for statement in spec.shape if isinstance(statement, If))):
        read = (n.base.id for n in walk_all([node]) if isinstance(n, Index) and isinstance(n.base, Name))
        if not tensors.isdisjoint(read):
            findings.add(
                node.cond.span, "an assert that reads elements cannot be inside an `if`: write `not cond or …`"
            )


def _matches(node: Assert, error: str) -> bool:
    """Whether the error text of an example can be part of this assert's message."""
    assert node.message is not None
    words = [part for part in node.message.parts if isinstance(part, str)]
    pattern = ".*".join(re.escape(word) for word in words)
    return any(error in word for word in words) or re.search(pattern, error) is not None


def _has_example(spec: OpSpec, param: str, member: str, default: object) -> bool:
    for example in spec.examples:
        value = dict(example.arguments).get(param)
        chosen = value.value if value is not None else default.value if isinstance(default, Str) else None
        if example.error is None and (chosen == member or (chosen is None and member == "none")):
            return True
    return False


# --- what must make sense -----------------------------------------------------------------------------------------


def check_meaning(spec: OpSpec, kinds: Mapping[str, ValueKind], ops: set[str], findings: Findings) -> None:
    """Checks names, calls, kinds, unused names, kernels and mappings of an op."""
    if len(_bodies(spec)) > 1:
        findings.add(spec.span, f"op '{spec.name}' has {' and '.join(_bodies(spec))}; one of them is enough")
    functions = {function.name: function for function in spec.defines}
    from_inputs = {name for operand in spec.inputs for name in piece_names(operand)}
    fixed = frozenset(from_inputs | {param.name for param in spec.params})
    names = NameChecker(spec, findings, functions, fixed=fixed)
    scope = _solved_scope(spec, kinds)
    _signatures(spec, names, scope)
    names.rule(spec.shape, scope)
    _nested_asserts(spec, findings)
    rule_scope = dict(scope)
    _bodies_of(spec, names, scope, findings)
    _outputs(spec, names, rule_scope)
    _functions(spec, names, scope)
    check_mappings(spec, ops, names, findings)
    for algorithm in spec.algorithms:
        names.expr(algorithm.condition, rule_scope, "rule")
    _unused(spec, names, findings)
    _decided(spec.shape, findings)
    check_kinds(spec, kinds, findings)
    check_dtypes(spec, findings)
    check_random(spec, findings)
    check_traits(spec, findings)
    check_sequences(spec, findings)
    check_searches(spec, findings)
    check_identifiers(spec, findings)


def _solved_scope(spec: OpSpec, kinds: Mapping[str, ValueKind]) -> dict[str, ValueKind]:
    """Collects the names that the signature defines: tensors, dims, runs, params; not those that the rule assigns."""
    assigned = set(_assigned(spec.shape))
    # A name that could not be solved has a finding of its own.
    unsolved = {name for operand in spec.inputs for name in piece_names(operand)} | {p.name for p in spec.params}
    scope = dict.fromkeys(unsolved - assigned, K.ANY)
    scope |= {name: kind for name, kind in kinds.items() if name not in assigned}
    for operand in spec.inputs:
        scope[operand.name] = K.TENSORS if operand.signature.variadic else K.TENSOR
    scope |= dict.fromkeys((rule.var for rule in spec.dtypes), K.DTYPE)
    return scope


def _assigned(statements: tuple[Statement, ...]) -> Iterator[str]:
    for statement in statements:
        match statement:
            case Assign(names=names):
                yield from names
            case If(then=then, other=other):
                yield from _assigned(then)
                yield from _assigned(other)
            case Unbacked(name=name):
                yield name


def _signatures(spec: OpSpec, names: NameChecker, scope: dict[str, ValueKind]) -> None:
    """Checks expressions in inputs and parameters."""
    for operand in spec.inputs:
        inner = _with_element(operand, scope)
        for node in _expressions(operand):
            names.expr(node, inner, "rule")
    for param in spec.params:
        for expr in (param.default, param.of, param.empty, param.kind.length):
            if expr is not None and not isinstance(expr, (Str, NoneLit)):
                # A parameter's own name may occur in its `of:`, which is no use of the parameter.
                before = param.name in names.used
                names.expr(expr, scope, "rule")
                if not before and param.name in names.used:
                    names.used.discard(param.name)


def _with_element(operand: Operand, scope: Mapping[str, ValueKind]) -> dict[str, ValueKind]:
    variadic = operand.signature.variadic
    return {**scope, variadic.var: K.INT} if variadic else dict(scope)


def _expressions(operand: Operand) -> Iterator[Node]:
    """Yields the expressions of a signature, without the names of dims."""
    signature = operand.signature
    for piece in signature.pieces:
        yield from (child for child in children(piece) if not isinstance(child, (Dim, Run)))
        for inner in children(piece):
            yield from children(inner) if isinstance(inner, (Dim, Run)) else ()
    if signature.default is not None:
        yield signature.default


def _bodies_of(spec: OpSpec, names: NameChecker, scope: dict[str, ValueKind], findings: Findings) -> None:
    if spec.kernel is not None:
        check_kernel(spec, spec.kernel, names, scope, findings)
        for equation in spec.kernel.equations:
            if equation.target.items is None:
                scope[equation.target.tensor] = K.INT
    if spec.procedure is not None:
        check_procedure(spec, spec.procedure, names, scope, findings)
    else:
        for name, statement in unbacked_sizes(spec.shape).items():
            findings.add(
                statement.span,
                f"no procedure computes the data-dependent size '{name}'; a kernel computes such a size as a count: `{name} = count(…)`",
            )


def _outputs(spec: OpSpec, names: NameChecker, scope: dict[str, ValueKind]) -> None:
    """Checks that every name in an output's signature is known."""
    known = dict(scope)
    if spec.kernel is not None:
        known |= {e.target.tensor: K.INT for e in spec.kernel.equations if e.target.items is None}
    for operand in spec.outputs:
        inner = _with_element(operand, known)
        if operand.signature.variadic:
            names.expr(operand.signature.variadic.count, known, "rule")
        for node in _expressions(operand):
            names.expr(node, inner, "rule")
        for piece in operand.signature.pieces:
            for name in _names_of(piece):
                names.expr(name, inner, "rule")


def _names_of(piece: Piece | Node) -> Iterator[Name]:
    """Yields bare names of dims and runs in a piece, as expressions."""
    match piece:
        case Dim(name=name) | Run(name=name):
            yield Name(name, span=piece.span)
        case Ragged(size=size):
            yield Name(size.name, span=size.span)
        case DimExpr():
            pass
        case Product() | _:
            for child in children(piece):
                if isinstance(child, (Dim, Run)):
                    yield from _names_of(child)


def _functions(spec: OpSpec, names: NameChecker, scope: Mapping[str, ValueKind]) -> None:
    in_kernel = calls([body for body in (spec.kernel, spec.procedure) if body is not None])
    results = dict.fromkeys((operand.name for operand in spec.outputs), K.TENSOR)
    for function in reversed(spec.defines):
        where = "kernel" if function.name in in_kernel else "rule"
        if where == "kernel":
            in_kernel |= calls((function,))
        names.function(function, {**scope, **results}, where)


def _unused(spec: OpSpec, names: NameChecker, findings: Findings) -> None:
    """Checks that parameters and names of the rule are read."""
    in_signature = {name for operand in spec.inputs for name in piece_names(operand)}
    by_dtype = {name for rule in spec.dtypes if rule.expr is not None for name in free_names(rule.expr)}
    composed = {n.id for n in walk(spec.compose) if isinstance(n, Name)} if spec.compose is not None else set()
    used = names.used | by_dtype | composed
    for param in spec.params:
        # A name from a family's rule may be read by other ops of the family only.
        own = spec.family is None or param.span.line >= spec.span.line
        if own and param.name not in used | in_signature:
            findings.add(param.span, f"the parameter '{param.name}' is never used")
    for statement in spec.shape:
        if isinstance(statement, Assign) and not set(statement.names) & used:
            listed = ", ".join(statement.names)
            findings.add(statement.span, f"'{listed}' is computed but never used")


def _decided(statements: tuple[Statement, ...], findings: Findings) -> None:
    """Checks that no condition is a constant, which makes a part of the rule unreachable."""
    for statement in statements:
        if isinstance(statement, (If, Assert)) and not any(isinstance(n, Name) for n in walk(statement.cond)):
            findings.add(statement.span, "this condition is constant")
        if isinstance(statement, If):
            _decided(statement.then, findings)
            _decided(statement.other, findings)
