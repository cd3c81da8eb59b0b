"""The picture of README and the start page is what its command draws now."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from website.overview import entry, length_of, svg

ROOT = Path(__file__).parents[2]


def test_the_picture_is_current() -> None:
    assert (ROOT / "docs/pictures/overview.svg").read_text() == svg("repeat"), (
        "python -m website.overview repeat docs/pictures/overview.svg"
    )


def test_what_the_picture_says_comes_from_the_op() -> None:
    other = svg("softmax")
    ElementTree.fromstring(other)
    assert "dynamic and static" not in other and "docs/ops/softmax.md" in other
    assert "dynamic and static" in svg("repeat")
    assert length_of("kernels", "softmax_kernel") > 5 and length_of("kernels", "no_such_kernel") == 0


def test_an_entry_ends_before_its_examples() -> None:
    lines = (ROOT / "specs/indexing.yaml").read_text().splitlines()
    shown = entry(f"specs/indexing.yaml:{lines.index('  repeat:') + 1}")
    assert shown[0] == "repeat:" and shown[-1].startswith("  reference:")
