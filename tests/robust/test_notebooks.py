"""What notebooks show: HTML that is closed, escaped and of the words that `print` shows, which itself stays as it is."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

import anyshape
from anyshape import ops
from anyshape.cli.explain import explanation
from anyshape.outline import MOST_LINES, Outline, outline
from anyshape.vm.executable.memory_text import memory_text

NAME = "<script>alert('&')</script>"


class Reader(HTMLParser):
    """Reads lines of text and the tags around each; raises AssertionError for a tag that is not closed as it was opened."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[tuple[int, str]] = []
        self.tags: list[str] = []
        self.opened: list[str] = []
        self.feed(html)
        self.close()
        assert self.tags == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ("details", "summary", "div"), tag
        self.tags.append(tag)
        if tag == "details" and ("open", None) in [(k, v or None) for k, v in attrs]:
            self.opened.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.tags.pop() == tag

    def handle_data(self, data: str) -> None:
        self.lines.append((self.tags.count("details") - (self.tags[-1] == "summary"), data))


def model() -> anyshape.Executable:
    x, k = anyshape.input(NAME, "f32[n, m]"), anyshape.input("k", "i64[1]")
    y = ops.softmax(ops.slice(x, k, [100], [0]))
    return anyshape.compile(anyshape.function([x, k], [y, ops.nonzero(x)]))


def test_an_outline_has_the_lines_of_the_text_at_their_depth() -> None:
    text = "a\n  b <i>\n    c & d\n  e\n\nf"
    assert Reader(outline(text)).lines == [(0, "a"), (1, "b <i>"), (2, "c & d"), (1, "e"), (0, "f")]
    assert len(Reader(outline(text)).opened) == 1 and Reader(outline(text, opened=False)).opened == []
    assert outline("") == "" and Reader(outline("   deep\n first")).lines == [(0, "deep"), (0, "first")]


def test_a_long_text_says_how_much_is_left_out() -> None:
    lines = Reader(outline("\n".join(map(str, range(MOST_LINES + 7))))).lines
    assert len(lines) == MOST_LINES + 1 and lines[-1][1] == "… and 7 more lines, which print shows"
    assert len(Reader(outline("\n".join(map(str, range(MOST_LINES))))).lines) == MOST_LINES


@pytest.fixture(scope="module")
def exe() -> anyshape.Executable:
    return model()


def test_what_is_shown_is_what_is_printed(exe: anyshape.Executable) -> None:
    for shown in (exe.report, memory_text(exe), explanation(exe)):
        words = [line.strip() for line in str(shown).splitlines() if line.strip()]
        assert [text for _, text in Reader(shown._repr_html_()).lines] == words
    assert isinstance(explanation(exe), str) and isinstance(memory_text(exe), Outline)


def test_an_executable_shows_its_signature_and_the_rest_collapsed(exe: anyshape.Executable) -> None:
    html = exe._repr_html_()
    read, lines = Reader(html), [text for _, text in Reader(html).lines]
    assert lines[:4] == ["main", "inputs:", f"{NAME}: f32[n, m]", "k: i64[1]"] and "<script" not in html
    assert {"report", "memory", "programs"} <= set(lines)
    assert f"<Executable main({NAME}: f32[n, m], k: i64[1]) -> output0, output1>" == repr(exe)
    assert html.count(" open>") < html.count("<details") and read.opened


def test_symbolic_shapes_are_shown() -> None:
    onnx = pytest.importorskip("onnx")
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[n] x, float[3] w) => (float[k] y) { y = Add(x, w) }"""
    )
    shapes = anyshape.shapes(model)
    words = [line.strip() for line in str(shapes).splitlines() if line.strip()]
    assert [text for _, text in Reader(shapes._repr_html_()).lines] == words
