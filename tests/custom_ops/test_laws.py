"""The law of custom ops: a few ops, chosen by a hash of their names, and all of them in long runs; the list of ops that are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import anyshape
from anyshape.custom_ops.calls import refusal
from anyshape.custom_ops.refusals import refused, taken
from anyshape.errors import AnyshapeError
from anyshape.properties import Example
from anyshape_testing.calls.call import variants
from anyshape_testing.calls.packages import register
from anyshape_testing.laws.custom_ops import (
    Case,
    case_of,
    examples,
    first_case,
    gives_what_the_reference_gives,
    library_for,
    missing,
    refuses_in_the_same_words,
)
from anyshape_testing.laws.exported_ops import is_sampled
from tests.custom_ops.refused_page import PAGE, plain, written

OPS = register("anyshape_ops")
SAMPLED = [n for n in OPS if is_sampled(n)]
needs_onnxruntime = pytest.mark.skipif(bool(missing()), reason=missing())


def some_of(errors: bool) -> list[str]:
    return [n for n in SAMPLED if examples(n, errors) and refusal(variants(n)[0]) is None]


@needs_onnxruntime
@pytest.mark.parametrize("op", some_of(errors=False))
def test_a_custom_op_gives_what_its_reference_gives(op: str, tmp_path: Path) -> None:
    case = first_case(op)
    assert isinstance(case, Case), case
    library = library_for([case])
    gives_what_the_reference_gives(case, library.kernels[0], library.write(tmp_path)[-1])


@needs_onnxruntime
@pytest.mark.parametrize("op", some_of(errors=True))
def test_a_custom_op_refuses_in_the_words_of_python(op: str, tmp_path: Path) -> None:
    refuses_alike(op, examples(op, errors=True)[0], tmp_path)


def refuses_alike(op: str, e: Example, folder: Path) -> str:
    """Runs an example of an error; its words. Empty where the call cannot be built, since its ranks and attributes are refused."""
    case = case_of(op, e)
    if not isinstance(case, Case):
        return ""
    try:
        executable, library = anyshape.compile(case.kernel.function, threads=1), library_for([case])
    except AnyshapeError:
        return ""
    with pytest.raises(AnyshapeError) as raised:
        executable.run(case.arrays)
    refuses_in_the_same_words(case, library.kernels[0], library.write(folder)[-1], str(raised.value))
    return str(raised.value)


@needs_onnxruntime
def test_words_are_compared_for_some_op(tmp_path: Path) -> None:
    """The law of refusals is not empty: this one is built, and refused by its sizes."""
    assert "k = 3 of 2 elements along axis 0" in refuses_alike("topk", examples("topk", errors=True)[0], tmp_path)


@pytest.mark.in_every_sample
def test_the_list_of_refused_ops_is_current() -> None:
    page = PAGE.read_text()
    assert written(page) == page
    assert {plain(n) for n in refused()} | {plain(n) for n in taken()} == set(OPS)
    assert (
        "fresh_seed" in refused()
        and "string_concat" in refused()
        and {"softmax", "dyn.reshape", "concat"} <= {*taken()}
    )
