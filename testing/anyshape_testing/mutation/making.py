"""Generates the OpDefs of a mutated spec in memory, and puts them in place of the op's own within a context.

In: a spec that the generator has not checked. Out: its OpDefs, or None where the generator refuses it.
"""

from __future__ import annotations
import __future__

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import SimpleNamespace
from typing import Any, cast

import scipy
import scipy.special  # references name scipy's rooms by their full names

from anyshape.errors import SpecError
from anyshape.graph.opdef import OpDef
from anyshape.graph.registry import all_ops
from anyshape.properties import Property
from anyshape_gen.analysis import analyse_op
from anyshape_gen.emit.bodies import kernels, procedures
from anyshape_gen.emit.bodies.kernels import KernelCode
from anyshape_gen.emit.calls import compositions, ops, rewrites
from anyshape_gen.emit.draws import strategies
from anyshape_gen.emit.rules import relations
from anyshape_gen.emit.text.module import NOTHING, Emitted, joined
from anyshape_gen.emit.text.names import constant_name
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.analysis import Analysis, OpAnalysis
from anyshape_gen.model.source import Findings
from anyshape_gen.model.spec import OpSpec

PACKAGE = "anyshape_ops"
"""The module name of generated functions: saved programs name the packages of their ops"""
ANNOTATIONS = __future__.annotations.compiler_flag


class GeneratorFault(Exception):
    """A spec that the generator accepted and generated invalid Python for: a bug, which is never counted as a refused mutant."""


@dataclass(frozen=True)
class Generated:
    """The generated texts of one op, module by module."""

    kernel: Emitted
    relation: Emitted
    rewrites: Emitted
    ops: Emitted
    composition: Emitted = NOTHING

    @property
    def text(self) -> str:
        return "\n".join((self.kernel, self.composition, self.relation, self.rewrites, self.ops))


class Workshop:
    """Generates ops one at a time among the others of an analysis."""

    def __init__(self, analysis: Analysis) -> None:
        self.analyses = analysis.ops
        self.ops: Mapping[str, OpAnalysis] = {a.spec.name: a for a in analysis.ops}
        self.specs: Mapping[str, OpSpec] = {a.spec.name: a.spec for a in analysis.ops}
        self.files = {a.spec.name: a.file for a in analysis.ops}

    def property_of(self, op: str) -> Property:
        """Generates the property (draws, oracle and examples) of an op's original spec."""
        (a,) = [a for a in self.analyses if a.spec.name == op]
        known = strategies.known_names([a])
        text = joined("\n\n\n", (strategies.oracles([a]), strategies.strategy(a)))
        namespace = _run(text, {n: o for n, o in known.items() if n != "scipy"}, {"scipy": scipy})
        return cast(Property, getattr(namespace, constant_name(op)))

    def generate(self, spec: OpSpec) -> Generated | None:
        """Generates the texts of a spec; None where the generator refuses it, so that it does not count as a mutant.

        Raises GeneratorFault where the texts are no valid Python.
        """
        findings = Findings()
        try:
            a = analyse_op(spec, self.files[spec.name], findings, set(self.specs), complete=False)
            if a is None or findings.items:
                return None
            kernel = _kernel(a)
            hoisted = kernel.hoisted if kernel is not None else {}
            specs = {**self.specs, spec.name: spec}
            body = compositions.composition(a, specs, "anyshape_ops") if spec.compose is not None else None
            bound = dict.fromkeys(
                [
                    *(kernel.bound if kernel is not None else ()),
                    *(body.bound if body is not None else ()),
                    *(p.name for p in spec.params),
                ]
            )
            relation = relations.relation(a, bound, hoisted)
            return Generated(
                kernel.text if kernel is not None else NOTHING,
                relation,
                rewrites.rewrites(a, specs),
                ops.op_defs(a, {**self.ops, spec.name: a}),
                body.text if body is not None else NOTHING,
            )
        except (NotExecuted, SpecError):
            return None
        except SyntaxError as e:
            raise GeneratorFault(
                f"{spec.name}: what the generator wrote is no Python: {e.msg}: {(e.text or '').strip()}"
            ) from e


def _kernel(a: OpAnalysis) -> KernelCode | None:
    if a.procedure is not None:
        return procedures.procedure(a)
    return kernels.kernel(a) if a.kernel is not None else None


def load(spec: OpSpec, text: Generated) -> tuple[OpDef, ...]:
    """Executes the texts of an op; returns its variants."""
    rooms = {
        "compositions": _run(text.composition, compositions.KNOWN),
        "kernels": _run(text.kernel, kernels.KNOWN),
        "relations": _run(text.relation, relations.KNOWN),
        "rewrites": _run(text.rewrites, rewrites.KNOWN),
    }
    namespace = _run(text.ops, ops.KNOWN, rooms)
    return tuple(getattr(namespace, constant_name(spec.name, v)) for v in ops.variants(spec))


def _run(code: Emitted, known: Mapping[str, str], more: Mapping[str, Any] | None = None) -> SimpleNamespace:
    names: dict[str, Any] = {n: _imported(n, known[n]) for n in code.imports if n not in (more or {})}
    names |= {**(more or {}), "__name__": PACKAGE}
    exec(compile(code, "<mutant>", "exec", flags=ANNOTATIONS, dont_inherit=True), names)
    return SimpleNamespace(**names)


@cache
def _imported(name: str, origin: str) -> Any:
    if origin.startswith("import "):
        return import_module(origin.removeprefix("import ").split(" as ")[0])
    return getattr(import_module(origin), name)


@contextmanager
def in_place(defs: tuple[OpDef, ...]) -> Iterator[None]:
    """Replaces the ops of the same names in this process's registry."""
    table = cast(dict[str, OpDef], all_ops())
    kept = {d.full_name: table.get(d.full_name) for d in defs}
    table.update((d.full_name, d) for d in defs)
    try:
        yield
    finally:
        for name, op in kept.items():
            if op is None:
                del table[name]
            else:
                table[name] = op
