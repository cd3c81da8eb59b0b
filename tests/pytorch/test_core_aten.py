"""Every operator of core ATen is mapped, decomposed into such, or refused with a reason; docs/torch.md says which."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshape.frontends.torch.program import core_operators
from anyshape_ops.aten import ATEN, REFUSED
from tests.pytorch.core_aten import TABLES, between, status

PAGE = Path(__file__).parents[2] / "docs/torch.md"


def test_every_operator_of_core_aten_is_mapped_decomposed_or_refused() -> None:
    assert len(core_operators()) > 180
    unknown = [name for name, kind, _ in status() if kind == "unknown"]
    assert not unknown


def test_an_operator_that_nothing_says_anything_of_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(ATEN, "convolution")
    assert ("convolution", "unknown", "") in list(status())


def test_every_refusal_and_mapping_is_of_an_operator_of_torch() -> None:
    from tests.pytorch.aten_calls import overload

    for name in [*ATEN, *REFUSED]:
        if not name.startswith(("operator.", "torch.", "math.")):
            assert overload(name) is not None


def test_the_page_has_the_tables_of_this_torch() -> None:
    for name, of in TABLES.items():
        assert between(name, of()) in PAGE.read_text(), "run `make torch-page`"
