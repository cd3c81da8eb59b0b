"""Lists the laws, and what each of them is meant to notice.

Out: `LAWS` by number: how a law is run, to which ops it applies, and, for each group of edits, on which sides the wrong op is put.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anyshape.errors import AnyshapeError
from anyshape_testing.calls.packages import PROPERTIES
from anyshape_testing.laws import (
    agreement,
    examples,
    executors,
    extremes,
    gradients,
    long_axes,
    moving,
    processors,
    refusals,
    sequences,
)
from anyshape_testing.laws.catalogue import LAWS as KNOWN
from anyshape_testing.laws.rewriting import test_rewrites
from anyshape_testing.matrix import sides
from anyshape_testing.matrix.sides import ITSELF, Side, Sides
from anyshape_testing.running.accounting import Record

CALLS, USUAL = 20, 100
"""Calls for each law: those of `make test` and, where a wrong op is not noticed, those of `make test OP=`"""


@dataclass(frozen=True)
class Law:
    """A law under test. `name`: its number in the catalogue. `notices`: for each group of edits, the sides on which the wrong op is put.
    `least`: the calls that it has to accept. `errors`: errors by which it fails. `once`: sides on which it runs so rarely that it only has
    to notice one of the wrong ops."""

    name: str
    about: str
    run: Callable[[str, Record], None]
    notices: Mapping[str, Sides]
    least: int = 10
    errors: tuple[type[Exception], ...] = (AssertionError,)
    once: Sequence[Side] = ()

    def silent(self, op: str) -> str | None:
        """Says why the law does not apply to the op, which is under test; None where it does. Examples apply to every op."""
        return next((law.silent(PROPERTIES[op]) for law in KNOWN if law.number == self.name), None)


def all_examples(op: str, record: Record) -> None:
    cases = PROPERTIES[op].examples
    for e in cases:
        examples.test_example((op, e))
    record("accepted", len(cases))


def each(groups: str, where: Sides) -> dict[str, Sides]:
    """Maps groups of edits, separated by commas, to the same sides."""
    return dict.fromkeys(groups.split(", "), where)


LAWS: Mapping[str, Law] = {
    law.name: law
    for law in (
        Law(
            "1a", "the interpreter gives what the reference gives", agreement.test_interpreter_is_reference,
            each("values, reference", ITSELF),
        ),
        Law(
            "1b", "native code gives what the interpreter gives", agreement.test_kernel_is_interpreter,
            each("values", sides.NATIVE),
        ),
        Law(
            "2", "the rule gives the shape that comes out", agreement.test_relation_gives_the_shape_that_comes_out,
            each("sizes, bounds", ITSELF),
        ),
        Law(
            "2b", "the body of a composition has the types of the rule", agreement.test_the_body_has_the_types_of_the_rule,
            each("body, sizes", ITSELF),
        ),
        Law(
            "2c", "the same on symbols", agreement.test_the_body_has_the_types_of_the_rule_on_symbols,
            each("body, sizes", ITSELF),
        ),
        Law(
            "3a", "inference on symbols is that on numbers", agreement.test_symbols_with_numbers_put_in,
            each("sizes, left out, stronger", sides.SYMBOLIC),
        ),
        Law(
            "3b", "the same of operands", agreement.test_operand_symbols_with_numbers_put_in,
            each("sizes, left out, stronger", sides.DYN),
        ),
        Law("4a", "dyn becomes static", agreement.test_dyn_is_static, each("sizes", sides.DYN)),
        Law(
            "4b", "dyn is static when it runs", agreement.test_dyn_at_run_time_is_static,
            each("values", sides.NATIVE),
        ),
        Law("5", "rewrites keep values and types", test_rewrites, each("rewrites", ITSELF), 5),
        Law(
            "6a", "what is refused is refused alike", refusals.test_refusals, each("equality", sides.REFUSING), least=1,
        ),
        Law(
            "6b", "each assert refuses", refusals.test_asserts,
            each("left out, message, told", sides.COMPILED) | each("unmet", ITSELF), 1,
        ),
        Law(
            "7a", "every executor gives the same bits", executors.test_every_executor_gives_the_same_bits,
            each("values", sides.EXECUTING), once=(sides.ANEW,),
        ),
        Law("7b", "one part is many", executors.test_parts, each("values", sides.IN_PARTS)),
        Law(
            "11", "code for other processors calls no library", processors.test_code_for_other_processors,
            each("values", sides.ELSEWHERE), least=1,
        ),
        Law(
            "9", "strings move as numbers do", moving.test_strings_move_as_numbers_do,
            each("values", sides.STRINGS), 5,
        ),
        Law(
            "10", "gradients are limits of differences", gradients.test_gradients_are_limits_of_differences,
            each("values", sides.SLOPES), 5,
        ),
        Law(
            "12", "a list is its elements", sequences.test_a_list_is_its_elements,
            each("values", sides.LISTED),
        ),
        Law(
            "13", "sums along long axes of narrow floats are rounded once", long_axes.test_long_axes,
            each("values", sides.LONG), least=1,
        ),
        Law(
            "14", "integers near the ends of i64 are computed with or refused", extremes.test_extremes,
            each("ends", ITSELF), least=1,
        ),
        Law(
            "examples", "examples are what they say", all_examples,
            each("values, reference, sizes, defaults, left out, boundary, stronger, message, examples", ITSELF), least=1,
            errors=(AssertionError, AnyshapeError),
        ),
    )
}  # fmt: skip
