"""The laws tell a wrong composition from a right one: each of these has one thing wrong, and is generated as a spec's own would be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from anyshape_gen.model.printer import procedure_text
from anyshape_gen.model.source import Findings
from anyshape_gen.parse.kernel import parse_procedure
from anyshape_gen.parse.text import Text
from anyshape_testing.laws import agreement
from anyshape_testing.mutation.making import Workshop, in_place, load
from anyshape_testing.process.profile import load_profile, usual

OP = "linear_attention"
VALUES, TYPES = agreement.test_interpreter_is_reference, agreement.test_the_body_has_the_types_of_the_rule
WRONG: dict[str, tuple[str, str, Callable[..., None], str]] = {
    "a sum left out": ("last = last + keys[t] * made", "last = keys[t] * made", VALUES, "elements differ"),
    "a turn late": ("last = last * kept[t]", "last = last * kept[0]", VALUES, "elements differ"),
    "axes mixed up": ("transpose(scaled, axes=[1, 0, 2, 3, 4])", "scaled", VALUES, "elements differ"),
    "another dtype": ("cast(transpose(scaled, axes=[1, 0, 2, 3, 4]), to=F)", "cast(scaled, to=f64)", TYPES, "the body makes f64"),
    "another shape": ("[b, n, groups * shared * f]", "[n, b, groups * shared * f]", TYPES, "and the rule says"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_shrinking() -> Iterator[None]:
    load_profile(40, shrink=False)
    yield
    load_profile(usual())


@pytest.mark.parametrize("name", WRONG)
def test_it_is_rejected(name: str, workshop: Workshop) -> None:
    right, wrong, law, why = WRONG[name]
    spec = workshop.specs[OP]
    assert spec.compose is not None
    text = procedure_text(spec.compose)
    assert right in text
    findings = Findings()
    code = workshop.generate(replace(spec, compose=parse_procedure(Text.plain(text.replace(right, wrong)), findings)))
    assert code is not None and not findings.items
    with in_place(load(spec, code)), pytest.raises(Exception, match=why):
        law(OP, lambda key, value: None)
