"""The page in a headless browser: what is on it, by keyboard, and that nothing comes from elsewhere.

`make test-playground` builds the page and runs this; ANYSHAPE_PLAYGROUND is the folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from anyshape_testing.exports.javascript import command
from tests.browser import Page, opened
from tests.playground.conftest import Ask

FOLDER = os.environ.get("ANYSHAPE_PLAYGROUND", "")

pytestmark = [
    pytest.mark.skipif(not FOLDER, reason="no page was built (make test-playground)"),
    pytest.mark.skipif(command("browser") is None, reason="there is no browser here (chromium)"),
]
READY = "document.body?.dataset.state === 'ready'"
OUTPUT = "[...document.querySelectorAll('#outputs td')].map(c => Number(c.title))"
TITLE = "document.querySelector('#outputs h3')?.textContent"
CONTROL = 2
"""The bit of the protocol that says that the Ctrl key is held"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with opened(Path(FOLDER), "#softmax") as page:
        page.wait(READY)
        yield page
        assert page.errors == []


def text(page: Page, name: str) -> str:
    return str(page.value(f"document.getElementById('{name}').innerText"))


def replace(page: Page, old: str, new: str) -> None:
    """Types over a part of the spec, as a person does, and asks without a pause."""
    page.value(f"""(() => {{ const a = document.getElementById('spec'); const at = a.value.indexOf({old!r});
        a.focus(); a.setSelectionRange(at, at + {len(old)}); return at; }})()""")
    page.type(new)
    page.press("Enter", modifiers=CONTROL)


def computed(here: Ask, e: dict[str, Any], sizes: dict[str, int]) -> Any:
    """The first output, as Python has it."""
    here("edit", text=e["spec"])
    here("infer", types=e["types"], params=e["params"])
    answer = here("compute", sizes=sizes, fills=e["fills"])
    return answer["outputs"][0]["data"]


def test_the_page_as_it_opens(page: Page, here: Ask, entries: dict[str, dict[str, Any]]) -> None:
    assert page.value(TITLE) == "y: f32[4, 6]"
    np.testing.assert_allclose(page.value(OUTPUT), computed(here, entries["softmax"], {"n": 4, "m": 6}), rtol=1e-5)
    assert "x: f32[n, m] → y: f32[n, m]" in text(page, "signature")
    assert text(page, "bytes") == "8576 bytes"
    assert "for i0 in n:" in text(page, "plan")


def test_a_slider_by_keyboard(page: Page, here: Ask, entries: dict[str, dict[str, Any]]) -> None:
    page.value("document.getElementById('dim-n').focus()")
    page.press("ArrowRight", 3)
    page.wait(f"{TITLE} === 'y: f32[7, 6]' && {READY}")
    np.testing.assert_allclose(page.value(OUTPUT), computed(here, entries["softmax"], {"n": 7, "m": 6}), rtol=1e-5)
    page.press("ArrowLeft", 9)
    page.wait(f"{TITLE} === 'y: f32[0, 6]' && {READY}")
    page.press("Escape")
    page.wait(f"{TITLE} === 'y: f32[4, 6]' && {READY}")


def test_tab_reaches_everything_in_order(page: Page) -> None:
    page.value("document.getElementById('gallery').focus()")
    reached = []
    for _ in range(14):
        reached.append(page.value("document.activeElement.id || document.activeElement.innerText"))
        page.press("Tab")
    expected = ["gallery", "spec", "call-type-x", "call-param-axis", "dim-n", "dim-m", "fill-x"]
    assert [r for r in reached if r in expected] == expected
    unnamed = page.value("""[...document.querySelectorAll('input, select, textarea, button')].filter(
        n => !n.labels?.length && !n.getAttribute('aria-label') && !n.innerText.trim()).map(n => n.outerHTML)""")
    assert unnamed == []


def test_an_edited_spec_a_fault_and_its_correction(page: Page) -> None:
    replace(page, "exp(x[*a, k, *b] - peak[*a, *b]) / total[*a, *b]", "x[*a, k, *b] - pek[*a, *b] - 0 * total[*a, *b]")
    page.wait(f"document.querySelectorAll('#findings li').length === 1 && {READY}")
    assert "did you mean 'peak'" in text(page, "findings")
    assert page.value("document.querySelector('.marks mark').textContent") == "pek"
    assert page.value("document.querySelector('.of-call').classList.contains('stale')")
    page.value("document.getElementById('dim-n').focus()")
    page.press("ArrowRight")  # the question begins with the spec, which still has errors
    page.press("ArrowLeft")
    page.wait(READY)
    assert len(page.value(OUTPUT)) == 24 and not text(page, "result-error")
    page.value("document.querySelector('#findings button').focus()")
    page.press("Enter")
    assert page.value("document.activeElement.id") == "spec"
    chosen = "(a => a.value.slice(a.selectionStart, a.selectionEnd))(document.getElementById('spec'))"
    assert page.value(chosen) == "pek"
    page.type("peak")  # over what the fault has selected
    page.wait(f"!document.querySelectorAll('#findings li').length && {READY} && {OUTPUT}[2] === 0")  # the peak of row 0
    assert "(x[a0, k] - peak[a0])" in text(page, "equations")
    x = np.sin(np.arange(24)).reshape(4, 6) * 3
    np.testing.assert_allclose(
        np.reshape(page.value(OUTPUT), (4, 6)), x - x.max(1, keepdims=True), rtol=1e-5, atol=1e-6
    )


def test_wrong_words_leave_the_page_usable(page: Page) -> None:
    for field, value, place in (
        ("call-type-x", "f32[n", "call-error"),
        ("call-param-axis", "9", "call-error"),
        ("fill-x", "1 / 0", "result-error"),
    ):
        page.value(f"document.getElementById('{field}').focus(), document.getElementById('{field}').select()")
        page.type(value)
        page.wait(f"document.getElementById('{place}').textContent && {READY}")
        page.press("Escape")
        page.wait(f"!document.getElementById('{place}').textContent && {READY}")
    assert page.value(TITLE) == "y: f32[4, 6]"


def test_what_would_never_end_is_given_up(page: Page) -> None:
    page.value("document.getElementById('fill-x').focus(), document.getElementById('fill-x').select()")
    page.type("9**9**9")
    page.wait("document.getElementById('result-error').textContent.startsWith('not done after 60 seconds')")
    page.press("Escape")
    page.wait(f"!document.getElementById('result-error').textContent && {READY} && {OUTPUT}.length === 24")


def test_another_op_of_the_gallery(page: Page, here: Ask, entries: dict[str, dict[str, Any]]) -> None:
    page.value("location.hash = '#unique'")
    page.wait(f"{TITLE} === 'y: i64[4]' && {READY}")
    assert page.value(OUTPUT)[:4] == computed(here, entries["unique"], {"n": 10})
    assert page.value("document.getElementById('gallery').value") == "unique"


def test_nothing_comes_from_elsewhere(page: Page) -> None:
    hosts = {urlsplit(address).hostname for address in page.asked if not address.startswith("data:")}
    assert hosts == {"127.0.0.1"}
    assert not [p for p in Path(FOLDER).glob("*.*ml") if "https://" in p.read_text()]
