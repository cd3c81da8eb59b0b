"""The site of docs/ in a headless browser, in wide and narrow windows, light and dark: no page logs an error, asks for what is not there or
for anything from elsewhere, is wider than its window, or leads to a page or a heading that is not there.

`make test-docs` builds the site and runs this; ANYSHAPE_SITE is the folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from anyshape_testing.exports.javascript import command
from tests.browser import Page, opened

FOLDER = os.environ.get("ANYSHAPE_SITE", "")

pytestmark = pytest.mark.skipif(command("browser") is None, reason="there is no browser here (chromium)")
WINDOWS = {"wide and light": (1400, 1000, False), "narrow and dark": (390, 800, True)}
SEEN = """({
    width: document.documentElement.scrollWidth - innerWidth,
    empty: [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src),
    links: [...document.querySelectorAll('a[href]')].map(a => a.href),
    ids: [...document.querySelectorAll('[id], a[name]')].map(e => e.id || e.name),
})"""


def faults(folder: Path, pages: Sequence[str], window: tuple[int, int, bool]) -> list[str]:
    """Opens each page, and says what is wrong with it, or with where its links lead."""
    seen: dict[str, Any] = {}
    wrong: list[str] = []
    with opened(folder) as page:
        page.show(*window)
        for name in pages:
            page.errors.clear()
            page.asked.clear()
            page.go(name)
            seen[name] = page.value(SEEN)
            wrong += [f"{name}: {fault}" for fault in of_page(seen[name], page)]
    return wrong + [f"{name}: {fault}" for name in pages for fault in dead_links(folder, seen[name]["links"], seen)]


def of_page(seen: dict[str, Any], page: Page) -> Iterator[str]:
    yield from page.errors
    yield from (f"no picture: {address}" for address in seen["empty"])
    yield from (f"from elsewhere: {address}" for address in page.asked if not is_here(address))
    if seen["width"] > 0:
        yield f"{seen['width']} pixels wider than the window"


def dead_links(folder: Path, links: Sequence[str], seen: dict[str, Any]) -> Iterator[str]:
    for link in sorted(set(links)):
        parts = urlsplit(link)
        if not is_here(link):
            continue
        name = unquote(parts.path).lstrip("/")
        name = f"{name}index.html" if name.endswith("/") or not name else name
        if not (folder / name).is_file():
            yield f"leads to {name}, which is not there"
        elif parts.fragment and name in seen and unquote(parts.fragment) not in seen[name]["ids"]:
            yield f"leads to {name}#{unquote(parts.fragment)}, where there is no such heading"


def is_here(address: str) -> bool:
    return urlsplit(address).hostname == "127.0.0.1" or address.startswith(("data:", "blob:"))


@pytest.mark.skipif(not FOLDER, reason="no site was built (make test-docs)")
@pytest.mark.parametrize("window", WINDOWS)
def test_every_page(window: str) -> None:
    folder = Path(FOLDER)
    pages = sorted(str(p.relative_to(folder)) for p in folder.rglob("*.html"))
    assert len(pages) > 300
    assert faults(folder, pages, WINDOWS[window]) == []


GOOD = "<!doctype html><html><head><link rel=icon href=data:,></head><body><h1 id=top>A page</h1>{}</body></html>"
BAD = {
    "<script>throw new Error('thrown here')</script>": "thrown here",
    "<script src=gone.js></script>": "404",
    "<img src=gone.png>": "no picture",
    "<div style='width: 3000px'>wide</div>": "wider than the window",
    "<a href=gone.html>there</a>": "leads to gone.html",
    "<a href=index.html#gone>there</a>": "leads to index.html#gone",
    "<link rel=stylesheet href=http://127.0.0.2/style.css>": "from elsewhere",
}


def test_what_is_wrong_with_a_page_is_found(tmp_path: Path) -> None:
    good = "<a href=index.html#top>up</a> <a href=index.html>here</a> <a href=https://example.org/gone>elsewhere</a>"
    (tmp_path / "index.html").write_text(GOOD.format(good))
    names = [f"bad{k}.html" for k in range(len(BAD))]
    for name, content in zip(names, BAD, strict=True):
        (tmp_path / name).write_text(GOOD.format(content))
    wrong = faults(tmp_path, ["index.html", *names], WINDOWS["narrow and dark"])
    assert not [f for f in wrong if f.startswith("index.html")]
    for name, fault in zip(names, BAD.values(), strict=True):
        assert any(f.startswith(name) and fault in f for f in wrong), (name, fault, wrong)
