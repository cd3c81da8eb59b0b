"""Lists the laws: what each says, where it is implemented, and to which ops it applies.

In: an op's property. Out: for each law None, or why it does not apply. That follows from the op's definition alone: a law that applies to
an op and accepts no call of it is weak.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature

from anyshape.equations.builder import Equation, RecurrenceStep, Run, Sorting, Update
from anyshape.equations.dependencies import reads
from anyshape.graph.opdef import OpDef
from anyshape.properties import Property
from anyshape_testing.calls.call import variants
from anyshape_testing.calls.dtypes import has_integers, narrow_dtypes
from anyshape_testing.calls.examples import shown
from anyshape_testing.calls.nodes import equations_below
from anyshape_testing.laws.gradients import refusal
from anyshape_testing.laws.long_axes import counts_or_adds


@dataclass(frozen=True)
class Law:
    """One law. `place`: module and function of `anyshape_testing.laws`; the function's first parameter is one of SPEAKS_OF."""

    number: str
    says: str
    place: str

    def __str__(self) -> str:
        return f"{self.number} {self.says}"

    @property
    def function(self) -> Callable[..., None]:
        module, name = self.place.split(":")
        law: Callable[..., None] = getattr(import_module(f"anyshape_testing.laws.{module}"), name)
        return law

    @property
    def parameter(self) -> str:
        return next(iter(signature(self.function).parameters))

    def silent(self, p: Property) -> str | None:
        """Says why the law does not apply to the op; None where it does."""
        return SPEAKS_OF[self.parameter](p)


LAWS = (
    Law("1a", "interpreter == reference", "agreement:test_interpreter_is_reference"),
    Law("1b", "kernel == interpreter", "agreement:test_kernel_is_interpreter"),
    Law("2", "relation == shape that came out", "agreement:test_relation_gives_the_shape_that_comes_out"),
    Law("2b", "types of the body == types of the rule", "agreement:test_the_body_has_the_types_of_the_rule"),
    Law("2c", "the same on symbols", "agreement:test_the_body_has_the_types_of_the_rule_on_symbols"),
    Law("3a", "symbolic inference == numeric", "agreement:test_symbols_with_numbers_put_in"),
    Law("3b", "symbolic operands == numeric", "agreement:test_operand_symbols_with_numbers_put_in"),
    Law("4a", "dyn becomes static", "agreement:test_dyn_is_static"),
    Law("4b", "dyn == static at run time", "agreement:test_dyn_at_run_time_is_static"),
    Law("5", "rewrites keep values and types", "rewriting:test_rewrites"),
    Law("6a", "refused alike", "refusals:test_refusals"),
    Law("6b", "each assert refuses, by a draw of its own", "refusals:test_asserts"),
    Law("7a", "native == Python == loaded", "executors:test_every_executor_gives_the_same_bits"),
    Law("7b", "one part == many", "executors:test_parts"),
    Law("9", "strings move as numbers do", "moving:test_strings_move_as_numbers_do"),
    Law("10", "gradients == limits of differences", "gradients:test_gradients_are_limits_of_differences"),
    Law("11", "code for other processors", "processors:test_code_for_other_processors"),
    Law("12", "a list == its elements", "sequences:test_a_list_is_its_elements"),
    Law("13", "long axes of narrow floats", "long_axes:test_long_axes"),
    Law("14", "integers near the ends of i64", "extremes:test_extremes"),
)


def _unless(holds: Callable[[OpDef], object], reason: str) -> Callable[[Property], str | None]:
    return lambda p: None if holds(variants(p.op)[0]) else reason


def _has_no_refusals(p: Property) -> str | None:
    return None if p.refuses else "no call is refused for its shapes or parameters"


def _is_not_one_kernel(p: Property) -> str | None:
    if variants(p.op)[0].kernel is None:
        return "it has no kernel of its own"
    several = all(_is_several(equations_below(n)) for n in shown(p))
    return "what is computed in order is read by another kernel" if several else None


def _is_not_whole(p: Property) -> str | None:
    """Says why an op is not one kernel without data-dependent sizes, which law 7b runs in parts."""
    if any(q.unbacked is not None for n in shown(p) for q in equations_below(n)):
        return "it finds sizes, and what needs them is another kernel"
    return _is_not_one_kernel(p)


def _is_several(qs: Sequence[Equation]) -> bool:
    """Whether an equation reads the result of a procedure, sort, update or recurrence, which another kernel has to complete first."""
    ordered = [q for q in qs if isinstance(q.form, (Run, Sorting, RecurrenceStep, Update))]
    steps = any(isinstance(q.form, Run) for q in qs) and not all(isinstance(q.form, Run) for q in qs)
    targets = {q.target for q in ordered}
    return steps or any(targets & reads(q) for q in qs if not isinstance(q.form, (RecurrenceStep, Run, Update)))


def _is_not_smooth(p: Property) -> str | None:
    op = variants(p.op)[0]
    if op.is_random:
        return "it draws at random"
    if not all(any("f64" in op.dtypes.get(d.dtype, (d.dtype,)) for d in side) for side in (op.inputs, op.outputs)):
        return "it makes no f64 of f64"
    reasons: list[str] = []
    for node in shown(p, wide=True):
        why = refusal(node)
        if why is None:
            return None
        reasons.append(why)
    return reasons[0] if reasons else "no example of it has a result"


def _is_never_long(p: Property) -> str | None:
    op = variants(p.op)[0]
    if op.is_random or not narrow_dtypes(op):
        return "it draws at random" if op.is_random else "it takes no float of 16 bits"
    return None if any(map(counts_or_adds, shown(p))) else "it adds up nothing, and counts nothing"


SPEAKS_OF: Mapping[str, Callable[[Property], str | None]] = {
    "op": lambda p: None,
    "refusing_op": _has_no_refusals,
    "asserting_op": lambda p: None if p.asserts else "its rule has no assert",
    "dyn_op": lambda p: None if len(variants(p.op)) == 2 else "no parameter of it is an operand",
    "moving_op": _unless(lambda op: op.moves and not op.is_random, "it does not only move elements"),
    "smooth_op": _is_not_smooth,
    "composed_op": _unless(lambda op: op.composition is not None, "it is not composed of other ops"),
    "sequence_op": _unless(lambda op: op.sequence is not None, "it takes no list"),
    "rewriting_op": _unless(lambda op: op.rewrites, "it has no rewrites"),
    "kernel_op": _is_not_one_kernel,
    "whole_op": _is_not_whole,
    "narrow_op": _is_never_long,
    "integer_op": _unless(
        lambda op: has_integers(op) and not op.is_random, "no integer parameter, and no operand of indices"
    ),
}
"""Functions that say why laws do not apply to an op, by the name of the laws' first parameter"""


def silences(p: Property) -> dict[str, str]:
    """Maps numbers of laws that do not apply to the op to the reasons."""
    reasons = {law.number: law.silent(p) for law in LAWS}
    return {number: reason for number, reason in reasons.items() if reason is not None}


def stale(p: Property) -> str | None:
    """Words for a spec that calls a law weak that does not apply to the op; None where there is none."""
    never = [f"{law.number}: {why}" for law in LAWS if law.number in p.weak and (why := law.silent(p)) is not None]
    return f"{p.source}: `weak:` of {p.op} names a law that does not apply, {'; '.join(never)}" if never else None
