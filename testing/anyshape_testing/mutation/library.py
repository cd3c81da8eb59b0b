"""Functions of the library as subjects of mutation: each is changed by itself, and judged by the tests of the ops that call it.

In: the analysis of a folder of specs. Out: for each function of the folder's library a spec of nothing else, and the ops that call it. A
folder that has anyshape's own functions besides its own does not test these anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anyshape_gen.model.analysis import Analysis
from anyshape_gen.model.nodes import Function
from anyshape_gen.model.spec import NO_OP, OpSpec
from anyshape_gen.parse.library import SHOWN

PREFIX = "library."
"""What the name of a function's spec begins with: no op's name has a point"""


@dataclass(frozen=True)
class LibraryFunction:
    """A function of the library. `spec` is of nothing but the function, with the examples of the ops that call it, `users`, of which those
    with the fewest operands and parameters come first."""

    spec: OpSpec
    users: tuple[str, ...]


def with_function(spec: OpSpec, changed: Function) -> OpSpec:
    """The spec of an op with a changed function in the place of that of its name."""
    return replace(spec, defines=tuple(changed if f.name == changed.name else f for f in spec.defines))


def library_functions(analysis: Analysis) -> dict[str, LibraryFunction]:
    """The functions of the folder's own library that ops call, directly or not, by the names of their specs."""
    functions = {}
    for f in own_functions(analysis):
        users = _users(analysis, f)
        if users:
            # As the analysis of an op has it, which may have resolved more of it.
            own = next(g for g in users[0].defines if g.name == f.name)
            examples = tuple(e for user in users for e in user.examples)
            spec = replace(NO_OP, name=f"{PREFIX}{f.name}", defines=(own,), examples=examples, span=f.span)
            functions[spec.name] = LibraryFunction(spec, tuple(user.name for user in users))
    return functions


def own_functions(analysis: Analysis) -> list[Function]:
    """The functions of the library that the folder itself defines."""
    return [f for f in analysis.library if f.span.file != SHOWN]


def uncalled(analysis: Analysis) -> list[str]:
    """Lists the functions of the folder's own library that no op calls, so that nothing tests them."""
    return [f.name for f in own_functions(analysis) if not _users(analysis, f)]


def _users(analysis: Analysis, f: Function) -> Sequence[OpSpec]:
    specs = [a.spec for a in analysis.ops if any(g.name == f.name and g.span == f.span for g in a.spec.defines)]
    return sorted(specs, key=lambda spec: len(spec.inputs) + len(spec.params))
