"""Ranges whose ends are read, over the dims of a run of fixed length, of an intermediate tensor, of lists and along an axis.

The ops are those of `data/read_ranges.yaml`; what has no extent is refused in `bad_specs/`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anyshape_gen.analysis import analyse
from anyshape_testing.process.profile import load_profile
from anyshape_testing.quick import checks, run
from tests.generator import test_kernels
from tests.generator.installing import installed

TEXT = (Path(__file__).parent / "data" / "read_ranges.yaml").read_text()
OPS = {a.spec.name: a for a in analyse({"specs/read_ranges.yaml": TEXT}).ops}
EXAMPLES = [
    (name, e) for name, a in OPS.items() for e in a.spec.examples if e.error is None and name != "windows_of_squares"
]


@pytest.mark.parametrize(("op", "example"), EXAMPLES, ids=[f"{name}-{k}" for k, (name, _) in enumerate(EXAMPLES)])
def test_the_resolved_kernel_element_by_element(op: str, example: Any) -> None:
    test_kernels.test_kernel_agrees_with_reference(OPS[op], example)


def test_examples_and_laws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_profile(2)
    with installed("read_ranges", TEXT, tmp_path, monkeypatch):
        wrong = [line for op in OPS for holds, line in map(run, checks("read_ranges", op)) if not holds]
    assert not wrong, "\n".join(wrong)
