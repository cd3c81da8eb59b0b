"""docs/gradients.md lists the ops without a gradient: the lists are current, and each reason names the line of the op that it is of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from anyshape_testing.calls.packages import register
from anyshape_testing.gradient_page import MARKER, NO_FLOATS, refusals, with_lists

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/gradients.md").read_text()


@pytest.mark.in_every_sample
def test_the_lists_are_current() -> None:
    assert with_lists(PAGE, dict(sorted(register("anyshape_ops").items()))) == PAGE, (
        "run python -m anyshape_testing.gradient_page"
    )
    with pytest.raises(ValueError, match="has no line"):
        with_lists(PAGE.replace(MARKER, ""), {})


@pytest.mark.in_every_sample
def test_reasons_name_the_line_of_the_op() -> None:
    listed = PAGE.split("## Ops without a gradient")[1].split("These make")[0]
    ops = list(re.findall(r"^\| \[(\w+)\]", listed, re.MULTILINE))
    properties = register("anyshape_ops")
    assert len(ops) > 5
    for op in ops:
        (why,) = {w for w in refusals(properties[op]) if w not in (None, NO_FLOATS)}
        assert why is not None
        path, line = re.findall(r"\((specs/\w+\.yaml):(\d+)\)", why)[-1]
        until = (ROOT / path).read_text().splitlines()[: int(line)]
        entry = next(m for m in (re.fullmatch(r"  (\w+):", text) for text in reversed(until)) if m)
        caller = re.search(r"no gradient of static\.(\w+), which static\.(\w+) calls", why)
        assert caller is None or caller[1] == entry[1], why
        assert (entry[1] if caller is None else caller[2]) == op, why
        assert until[-2].strip() == "procedure: |" if "procedure" in why else until[-1] == f"  {op}:"


@pytest.mark.parametrize("block", re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
def test_the_example_runs(block: str) -> None:
    names: dict[str, object] = {}
    exec(block, names)
    assert names["step"](*[names["np"].ones(s, "f4") for s in ((3, 2), 2)])[0] == 56
