"""The laws and examples of one op, one after the other in this process, each told as it ends: what `make watch` runs on every save.

In: a package of ops, an op's name, how many random calls a law gets. Out: a line for each law that holds, and for each that does not
what `report` says: the call, the spec's line and a script that makes the call again.
"""

from __future__ import annotations

import argparse
import inspect
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anyshape.errors import UnsupportedError
from anyshape.graph.registry import all_ops
from anyshape.testing.calls import variants
from anyshape.testing.profile import load_profile, usual
from anyshape.testing.running import PROPERTIES, Record, register

ORDER = (
    "examples:test_example",
    "laws:test_relation_gives_the_shape_that_comes_out",
    "laws:test_the_body_has_the_types_of_the_rule",
    "laws:test_the_body_has_the_types_of_the_rule_on_symbols",
    "laws:test_symbols_with_numbers_put_in",
    "laws:test_dyn_is_static",
    "laws:test_operand_symbols_with_numbers_put_in",
    "laws:test_interpreter_is_reference",
    "laws:test_kernel_is_interpreter",
    "laws:test_dyn_at_run_time_is_static",
    "executors:test_parts",
    "rewriting:test_rewrites",
    "executors:test_every_executor_gives_the_same_bits",
    "refusals:test_asserts",
    "refusals:test_refusals",
)
"""Cheapest first; what compiles comes last."""
FEW = 5


@dataclass(frozen=True)
class Check:
    """One law of an op, or all of its examples."""

    name: str
    runs: tuple[tuple[str, Callable[[Record], None]], ...]
    """what is said before an error, and what to run"""


def checks(package: str, op: str) -> list[Check]:
    """All that must hold for this op. Raises UnsupportedError for a package that is not installed."""
    register(package)
    if op not in {known.name for known in all_ops().values()}:
        raise UnsupportedError(
            f"{package} is not among the packages of ops that are installed, so anyshape does not know {op}: "
            "pip install --editable the folder of its pyproject.toml"
        )
    return [c for place in ORDER if (c := _check(place, op)) is not None]


def _check(place: str, op: str) -> Check | None:
    room, name = place.split(":")
    law: Callable[..., None] = getattr(import_module(f"anyshape.testing.{room}"), name)
    wanted = inspect.signature(law).parameters
    if "example" in wanted:
        examples = PROPERTIES[op].examples
        cases = tuple((f"{e.source}: ", lambda _, e=e: law((op, e))) for e in examples)
        return Check(f"{len(cases)} examples", cases)
    missing = ("dyn_op" in wanted and len(variants(op)) < 2) or (
        "rewriting_op" in wanted and not variants(op)[0].rewrites
    )
    missing |= "composed_op" in wanted and variants(op)[0].composition is None
    missing |= "asserting_op" in wanted and not PROPERTIES[op].asserts
    words = name.removeprefix("test_").replace("_", " ")
    return None if missing else Check(words, (("", lambda record: law(op, record)),))


def run(share: Sequence[Check], examples: int) -> Iterator[tuple[bool, str]]:
    """(whether it holds, what to print) of every law."""
    load_profile(examples)
    for check in share:
        start = time.perf_counter()
        said: dict[str, Any] = {}
        problem = _problem(check, said.__setitem__)
        seconds = f"{time.perf_counter() - start:5.2f} s"
        name = said.get("law", check.name)
        yield problem is None, f"  {'holds' if problem is None else 'FAILS'}  {seconds}  {name}{problem or ''}"


def _problem(check: Check, record: Record) -> str | None:
    for where, one in check.runs:
        try:
            one(record)
        except (Exception, pytest.fail.Exception) as e:  # whatever a law raises is its result
            return "\n" + told(where, e)
    return None


def warm() -> None:
    """What the test library does once, done before it counts."""

    @settings(max_examples=1, database=None)
    @given(st.data())
    def draw(data: st.DataObject) -> None:
        data.draw(st.sampled_from((0, 1)))

    draw()


def told(where: str, e: BaseException) -> str:
    """The error, and the note that is ours: the test library adds its own, which say the same less well."""
    ours = [note for note in getattr(e, "__notes__", ()) if note.startswith("\nlaw ")]
    words = f"{where}{type(e).__name__}: {e}".strip()
    return "\n".join(f"    {line}" for line in "\n".join([words, *ours[:1]]).splitlines())


def main(package: str, op: str) -> bool:
    """Prints all laws with a few calls each and, where they hold, again with the usual number. Gives whether all hold."""
    return all(all_hold(package, op, examples) for examples in (FEW, usual()))


def all_hold(package: str, op: str, examples: int, jobs: int = 1) -> bool:
    """Prints each law as it ends, then what was found. `jobs` forks share the laws."""
    start = time.perf_counter()
    shares = [checks(package, op)[k::jobs] for k in range(jobs)]
    sys.stdout.flush()
    children = [fork(partial(told_all, share, examples)) for share in shares[1:]]
    failed = told_all(shares[0], examples)
    failed += sum(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    found = f"{failed} of its laws fail" if failed else "all laws hold"
    print(f"{op}: {found}, {examples} calls each, {time.perf_counter() - start:.1f} s", flush=True)
    return not failed


def told_all(share: Sequence[Check], examples: int) -> int:
    """How many do not hold."""
    failed = 0
    for holds, line in run(share, examples):
        print(line, flush=True)
        failed += not holds
    return failed


def fork(work: Callable[[], int]) -> int:
    """A child that ends with what the work gives; its process id."""
    child = os.fork()
    if child:
        return child
    try:
        os._exit(work())
    except BaseException:
        traceback.print_exc()
        os._exit(1)


def command(argv: Sequence[str] | None = None) -> int:
    """`python -m anyshape.testing.quick OP,…`: the usual number of calls for every law of these ops."""
    parser = argparse.ArgumentParser(prog="anyshape.testing.quick", description="Run all laws of ops.")
    parser.add_argument("ops", help="names, separated by commas")
    parser.add_argument("--package", default="anyshape_ops", help="the package of ops that has them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    args = parser.parse_args(argv)
    known = register(args.package)
    for op in args.ops.split(","):
        if op not in known:
            near = get_close_matches(op, known, 1)
            print(f"there is no op {op} in {args.package}" + (f"; did you mean {near[0]}?" if near else ""))
            return 2
    held = [all_hold(args.package, op, usual(), args.jobs) for op in args.ops.split(",")]
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(command())
