"""What the analysis knows of the names of an op: dtypes, shapes, extents, kinds.

In: the texts of a folder of specs, and an op of one of them. Out: lines of text about a name; none where the op cannot be analysed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from anyshape.errors import SpecError
from anyshape_gen.analysis import analyse_op
from anyshape_gen.memo import Memo
from anyshape_gen.model.analysis import BindParam, Define, ForEach, IfPresent, OpAnalysis, SolveStep, ValueKind
from anyshape_gen.model.nodes import Function, Generator
from anyshape_gen.model.printer import to_text
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec
from anyshape_gen.model.traverse import walk_all
from anyshape_gen.parse.library import read_library
from anyshape_gen.parse.load import load_file

_KINDS = {
    ValueKind.INT: "an integer",
    ValueKind.VECTOR: "a vector",
    ValueKind.VECTORS: "a list of vectors",
    ValueKind.TEXTS: "a vector of strings",
    ValueKind.BOOL: "a condition",
    ValueKind.FLOAT: "a float",
    ValueKind.STR: "a string",
    ValueKind.DTYPE: "a dtype",
}


def analysed(path: str, text: str, op: str, contents: Mapping[str, str]) -> OpAnalysis | None:
    """The analysis of an op, None where the op or a text that it depends on has errors. `contents`: all files of the folder."""
    try:
        blocks = tuple(sorted((name, content) for name, content in contents.items() if "library" in content))
        return _analysis(path, text, op, blocks)
    except (SpecError, RecursionError):
        return None


@lru_cache(maxsize=64)
def _analysis(path: str, text: str, op: str, blocks: tuple[tuple[str, str], ...]) -> OpAnalysis | None:
    spec = next((spec for spec in _loaded(path, text, blocks) if spec.name == op), None)
    return None if spec is None else analyse_op(spec, path, Findings(), {op}, complete=False)


@lru_cache(maxsize=8)
def _loaded(path: str, text: str, blocks: tuple[tuple[str, str], ...]) -> tuple[OpSpec, ...]:
    findings = Findings()
    library: Mapping[str, Function] = read_library(dict(blocks), findings, Memo())
    return load_file(path, text, findings, library).ops


def facts(a: OpAnalysis, name: str) -> list[str]:
    """What is known of a name: a line each."""
    return list(dict.fromkeys(_facts(a, name)))


def _facts(a: OpAnalysis, name: str) -> Iterator[str]:
    spec = a.spec
    yield from _of_dtypes(spec, name)
    for output in a.outputs:
        if output.name == name:
            yield f"shape `{to_text(output.shape)}`"
    for param in spec.params:
        if param.name == name and param.dyn:
            yield f"an operand of `dyn.{spec.name}`, an attribute of `static.{spec.name}`"
    if name in a.kinds and a.kinds[name] in _KINDS:
        yield _KINDS[a.kinds[name]]
    yield from _definitions(a.steps, name)
    for tensor in (*(a.kernel.scratch if a.kernel else ()), *(a.procedure.arrays if a.procedure else ())):
        if tensor.name == name:
            yield f"of dtype {tensor.dtype} and shape `{to_text(tensor.shape)}`"
    if a.kernel is not None:
        for size in a.kernel.unbacked:
            if size.name == name:
                yield f"a data-dependent size, from `{to_text(size.low)}` to `{to_text(size.high)}`"
        for equation in a.kernel.equations:
            for variable in equation.vars:
                if variable.name == name:
                    yield f"from 0 to below `{to_text(variable.extent)}`"
        for generator in walk_all([q.right for q in a.kernel.equations]):
            if isinstance(generator, Generator) and name in {target.name for target in generator.targets}:
                yield f"over `{to_text(generator.domain)}`"


def _of_dtypes(spec: OpSpec, name: str) -> Iterator[str]:
    variables = [o.signature.dtype for o in (*spec.inputs, *spec.outputs) if o.name == name]
    for rule in spec.dtypes:
        if rule.var == name or rule.var in variables:
            choices = to_text(rule.expr) if rule.expr is not None else ", ".join(rule.choices)
            yield f"{rule.var} is {choices}"


def _definitions(steps: Iterable[SolveStep], name: str) -> Iterator[str]:
    for step in steps:
        match step:
            case Define(name=defined, value=value) if defined == name:
                yield f"`{to_text(value)}`"
            case BindParam(param=param, defines_length=length) if length == name:
                yield f"the length of `{param.name}`"
            case ForEach(steps=inner) | IfPresent(steps=inner):
                yield from _definitions(inner, name)
