"""The tutorials of docs/tutorials: every block runs, and prints what the page shows (`--update-golden` writes what was printed)."""

from __future__ import annotations

from pathlib import Path

import pytest

from anyshape_testing.process.profile import LONG
from tests.docs.tutorial_pages import PageError, agrees, agrees_but_for_numbers, blocks, lacking, run_page, updated

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs/tutorials").glob("*.md"))
LONGER = {"add-an-op.md": "the laws of an op are tested twice"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_tutorial(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if absent := lacking(page.read_text()):
        pytest.skip(f"needs {', '.join(absent)}")
    if page.name in LONGER and not LONG:
        pytest.skip(f"long: {LONGER[page.name]}")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    mismatches = run_page(page.read_text(), tmp_path, str(page))
    if request.config.getoption("--update-golden"):
        page.write_text(updated(page.read_text(), mismatches))
    assert not mismatches, "\n".join(map(str, mismatches))


PAGE = """# A page

```python
n = 2
print(n * 3, "ms")
```

```output
6 ms
```

```text
only shown
```

```python title="three.py"
print(3)
```

```sh
python three.py
```

```output
3
```

<!-- fails -->
```python
import three
raise ValueError(f"got {n}")
```

```output
3
ValueError: got 2
```
"""


def test_a_page_that_is_right(tmp_path: Path) -> None:
    assert run_page(PAGE, tmp_path) == []
    assert [b.language for b in blocks(PAGE)].count("output") == 3
    assert run_page(PAGE.replace("6 ms", "… ms"), tmp_path) == []


@pytest.mark.parametrize(
    ("right", "wrong", "line"),
    [("6 ms", "7 ms", 9), ("6 ms", "6 s", 9), ("3\n```\n\n<", "3\n4\n```\n\n<", 25), ("got 2\n", "got 3\n", 35)],
)
def test_a_wrong_output_is_noticed(right: str, wrong: str, line: int, tmp_path: Path) -> None:
    changed = PAGE.replace(right, wrong)
    (mismatch,) = run_page(changed, tmp_path)
    assert mismatch.line == line
    assert updated(changed, [mismatch]) == PAGE


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("```python\nn", "```pyhton\nn", "'pyhton' is neither run nor written"),
        ("<!-- fails -->\n", "", "failed"),
        ("raise ValueError", "str", "nothing failed"),
        ("python three.py", "python four.py", "exit code 2"),
        ("6 ms", "…", "marks alone"),
        ("```text\n", "```text now\n", "only have a title"),
        ("only shown\n```", "only shown", "not closed"),
    ],
)  # fmt: skip
def test_a_block_that_cannot_be_run_is_refused(right: str, wrong: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(PageError, match=words):
        run_page(PAGE.replace(right, wrong), tmp_path)


def test_a_block_that_prints_and_shows_nothing_is_noticed(tmp_path: Path) -> None:
    assert len(run_page("```python\nprint(1)\n```\n", tmp_path)) == 1
    assert run_page("```python\nx = 1\n```\n", tmp_path) == []


def test_what_a_mark_stands_for() -> None:
    assert agrees("a … b", "a 12 b\n") and not agrees("a … b", "a 12 c")
    assert agrees("first\n…\nlast", "first\n1\n2\nlast") and agrees("first\n…\nlast", "first\nlast")
    assert not agrees("first\n…\nlast", "first\n1\n2") and not agrees("a … b", "a 1\n2 b")
    assert not agrees("x.y", "xzy")


def test_numbers_may_vary_where_the_page_says_so() -> None:
    table = "kernel      us  result\nmatmul  1,200.5  8x48\nsoftmax  3.0  8x4\n"
    assert agrees_but_for_numbers("matmul 7 8x48\n…\nkernel us result", table)
    assert agrees_but_for_numbers("mat… 7 8x48", table) and not agrees_but_for_numbers("mat… 7", table)
    assert not agrees_but_for_numbers("matmul 7 8x47", table) and not agrees_but_for_numbers("conv 7 8x48", table)
    mark = "<!-- numbers vary -->\n```output\n3 ms\n```\n"
    assert not any(b.numbers_vary for b in blocks(PAGE)) and [b.numbers_vary for b in blocks(mark)] == [True]


def test_a_package_is_announced(tmp_path: Path) -> None:
    project = (
        '[project]\nname = "some-ops"\nversion = "1.2"\n[project.entry-points."some.group"]\nops = "some_ops:OPS"\n'
    )
    read = 'from importlib.metadata import entry_points\nprint(entry_points(group="some.group")["ops"].value)'
    page = f"""```toml title="pyproject.toml"\n{project}```\n```sh\npip install --editable .\n```\n```python\n{read}\n```\n"""
    (mismatch,) = run_page(page, tmp_path)
    assert mismatch.printed == "some_ops:OPS\n"


def test_what_a_page_needs() -> None:
    assert lacking("<!-- needs: sh json -->") == []
    assert lacking("<!-- needs: no-such-program no_such_module -->\ntext") == ["no-such-program", "no_such_module"]
