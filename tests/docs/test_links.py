"""Links of README, docs/ and the examples' pages lead to files and headings that are there; every page of docs/ is in the navigation."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.docs.links import anchors, broken, links

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])


@pytest.mark.in_every_sample
def test_links() -> None:
    assert len(PAGES) > 300
    assert [fault for page in PAGES for fault in broken(page, ROOT)] == []


def navigation_faults(navigation: str, pages: set[str]) -> tuple[set[str], set[str]]:
    """Returns the pages that the navigation lacks, and those of its entries that are listed twice or are no page."""
    listed = Counter(re.findall(r"^ +- .*?([\w./-]+\.md)$", navigation, re.MULTILINE))
    ours = {
        n for n in listed if not n.startswith(("api/", "examples/")) and n not in ("security.md", "contributing.md")
    }
    return pages - set(listed), {n for n, count in listed.items() if count > 1} | (ours - pages)


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "website/mkdocs.yml").read_text().partition("\nnav:\n")[2]
    pages = {str(p.relative_to(ROOT / "docs")) for p in PAGES if p.is_relative_to(ROOT / "docs")}
    pages = {p for p in pages if not p.startswith("ops/") or p == "ops/index.md"}
    assert navigation_faults(navigation, pages) == (set(), set())
    assert navigation_faults("  - A: a.md\n  - B:\n      - b/c.md\n", {"a.md", "b/c.md"}) == (set(), set())
    assert navigation_faults("  - A: a.md\n  - A again: a.md\n  - gone.md\n", {"a.md", "d.md"}) == (
        {"d.md"},
        {"a.md", "gone.md"},
    )


PAGE = """# A page

[here](#two-words), [there](other.md#b--c), [again](other.md#same-1), [file](folder/file.txt), ![picture](folder/file.txt "title"),
[of another host](https://host.invalid/no), <img src="folder/file.txt"> and [a label
over two lines](other.md).

`[no](link.md)` in code, and

    [no](link.md)

```
[no](link.md)
```

## Two `words`
"""
OTHER = "# Other\n\n## B & c\n\n## Same\n\n## [Same](x.md)\n\n```\n# not a heading\n```\n"


def written(folder: Path, page: str) -> Path:
    (folder / "folder").mkdir(exist_ok=True)
    (folder / "folder/file.txt").write_text("")
    (folder / "other.md").write_text(OTHER)
    (folder / "page.md").write_text(page)
    return folder / "page.md"


def test_right_links_pass(tmp_path: Path) -> None:
    assert broken(written(tmp_path, PAGE), tmp_path) == []
    assert len(links(PAGE)) == 8
    assert anchors(OTHER) == {"other", "b--c", "same", "same-1"}


def test_wrong_links_are_reported(tmp_path: Path) -> None:
    for right, wrong, words in (
        ("#two-words", "#two-word", "page.md:3: (#two-word): page.md has no heading 'two-word'"),
        ("other.md#b--c", "other.md#b-c", "has no heading 'b-c'"),
        ("#same-1", "#same-2", "has no heading 'same-2'"),
        ("#same-1", "#not-a-heading", "has no heading"),
        ("](other.md)", "](others.md)", "page.md:4: (others.md) is not there"),
        ('src="folder/file.txt"', 'src="folder/no.txt"', "page.md:4: (folder/no.txt) is not there"),
        ("![picture](folder/file.txt", "![picture](../../file.txt", "is outside of the repository"),
        ("[file](folder/file.txt)", "[file]()", "is empty"),
        ("[file](folder/file.txt)", "[file](folder/file.txt#line)", "has no heading 'line'"),
    ):
        (fault,) = broken(written(tmp_path, PAGE.replace(right, wrong)), tmp_path)
        assert words in fault
