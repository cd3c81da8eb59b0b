"""What an editor shows of a spec: completion, hover, declarations and findings; of half-written texts too."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from anyshape_gen.analysis import analyse
from anyshape_gen.editor.completion import suggestions
from anyshape_gen.editor.cursor import cursor
from anyshape_gen.editor.diagnostics import Checker
from anyshape_gen.editor.entry import What, declared, entries
from anyshape_gen.editor.function_docs import FUNCTION_DOCS
from anyshape_gen.editor.hover import Hover, declaration, hover
from anyshape_gen.editor.vocabulary import keys_at
from anyshape_gen.memo import Memo
from anyshape_gen.model.functions import FUNCTIONS
from anyshape_gen.model.source import Findings
from anyshape_gen.parse.keys import FILE_KEYS, OP_KEYS, PARAM_KEYS, names
from anyshape_gen.parse.library import SHOWN, own_library, read_library
from anyshape_gen.parse.load import load_file

ROOT = Path(__file__).parents[2]
PATH = "specs/mine.yaml"
SPEC = """# a comment
oracles: |
  def halved(v):
      return v / 2
define: |
  def twice(v): return 2 * v

families:
  of_rows:
    inputs: {x: "F[*o:axis, *n]"}
    params: {axis: {kind: axis, default: -1}}

ops:
  scaled:
    family: of_rows
    summary: Every kernel of rows, scaled.
    outputs: {y: "F[*o, *n]", m: "F[*o]"}
    params:
      epsilon: {kind: float, default: 0.5}
      sizes: {kind: ints, default: "[]", dyn: operand}
    dtypes: {F: [f32, f64]}
    shape: |
      assert prod(n) > 0, "rows of nothing"   # a comment of a rule
      most = max(sum(sizes), 1)
    kernel: |
      mean[*i] = sum(twice(x[*i, *j]) for *j in n) / prod(n)
      m[*i]     = mean[*i]
      y[*i, *j] = x[*i, *j] / F(epsilon) + mean[*i] * most
    reference: halved(x)
    examples:
      - {x: [2, 3], y: [2, 3]}

"""
MEAN = "mean[*i] = sum(twice"
CONTENTS = {PATH: SPEC, SHOWN: own_library()}


def place(mark: str, text: str = SPEC) -> tuple[int, int]:
    """The line and the column of the `|` in a line of the text that is otherwise equal to `mark`."""
    before, _, after = mark.partition("|")
    (line,) = (k for k, one in enumerate(text.split("\n")) if one.strip().startswith((before + after).strip()))
    return line, text.split("\n")[line].index((before + after).strip()) + len(before)


def labels(mark: str, text: str = SPEC) -> list[str]:
    return [one.label for one in suggestions(text.split("\n"), *place(mark, text), {**CONTENTS, PATH: text})]


def shown(mark: str, text: str = SPEC) -> str:
    answer = hover(PATH, *place(mark, text), {**CONTENTS, PATH: text})
    return answer.text if answer is not None else ""


def test_every_function_is_described() -> None:
    assert set(FUNCTION_DOCS) == set(FUNCTIONS)
    for name, doc in FUNCTION_DOCS.items():
        assert doc.call.startswith(f"{name}(") and doc.text.endswith("."), name


@pytest.mark.parametrize(
    ("mark", "path", "at_key"),
    [
        ("fam|ilies:", (), True),
        ("of_r|ows:", ("families",), True),
        ("summary: Every| kernel of rows, scaled.", ("ops", "scaled", "summary"), False),
        ('outputs: {y|: "F[*o, *n]", m: "F[*o]"}', ("ops", "scaled", "outputs"), True),
        ('outputs: {y: "F[*o, *|n]", m: "F[*o]"}', ("ops", "scaled", "outputs", "y"), False),
        ('outputs: {y: "F[*o, *n]", m|: "F[*o]"}', ("ops", "scaled", "outputs"), True),
        ("epsilon: {kind|: float, default: 0.5}", ("ops", "scaled", "params", "epsilon"), True),
        ("epsilon: {kind: fl|oat, default: 0.5}", ("ops", "scaled", "params", "epsilon", "kind"), False),
        ("dtypes: {F: [f32, f|64]}", ("ops", "scaled", "dtypes", "F", "[]"), False),
        ("most = max(s|um(sizes), 1)", ("ops", "scaled", "shape"), False),
        ("- {x|: [2, 3], y: [2, 3]}", ("ops", "scaled", "examples", "[]"), True),
        ("- {x: [2|, 3], y: [2, 3]}", ("ops", "scaled", "examples", "[]", "x", "[]"), False),
        ("define: || ", ("define",), False),
    ],
)
def test_where_the_cursor_is(mark: str, path: tuple[str, ...], at_key: bool) -> None:
    at = cursor(SPEC.split("\n"), *place(mark))
    assert (at.path, at.at_key) == (path, at_key) and not at.in_comment


@pytest.mark.parametrize(
    ("line", "column", "path"),
    [
        ("", 0, ()), ("  ", 2, ("ops",)), ("    ", 4, ("ops", "scaled")), ("      ", 6, ("ops", "scaled", "examples", "[]")),
        ("    ke", 6, ("ops", "scaled")), ("      - {x: [", 13, ("ops", "scaled", "examples", "[]", "x", "[]")),
        ("      - x: {value: ", 18, ("ops", "scaled", "examples", "[]", "x", "value")),
    ],
)  # fmt: skip
def test_a_new_line_at_the_end(line: str, column: int, path: tuple[str, ...]) -> None:
    lines = [*SPEC.rstrip("\n").split("\n"), line]
    assert cursor(lines, len(lines) - 1, column).path[: len(path)] == path


def test_comments() -> None:
    for mark in ("# a com|ment", 'assert prod(n) > 0, "rows of nothing"   # a comment| of a rule'):
        assert cursor(SPEC.split("\n"), *place(mark)).in_comment and labels(mark) == [] and shown(mark) == ""
    lines = ["ops:", "  f:", "    shape: |", '      assert a, "# no comment"']
    assert not cursor(lines, 3, 25).in_comment


def test_keys_are_completed_by_the_schema() -> None:
    assert labels("fam|ilies:") == [*names(FILE_KEYS)]
    assert labels("summ|ary: Every kernel of rows, scaled.") == [*names(OP_KEYS)]
    assert labels("epsilon: {kind|: float, default: 0.5}") == [*names(PARAM_KEYS)]
    assert labels("- {x|: [2, 3], y: [2, 3]}") == ["error", "x", "y", "m", "epsilon", "sizes", "axis"]
    assert keys_at(("ops", "scaled", "nothing", "of", "it")) == ()


def test_words_are_completed() -> None:
    assert {"float", "axis", "ints[n]"} <= {*labels("epsilon: {kind: fl|oat, default: 0.5}")}
    assert labels('sizes: {kind: ints, default: "[]", dyn: op|erand}') == ["operand"]
    assert labels("family: of_|rows") == ["of_rows"]
    assert {"number", "bf16"} <= {*labels("dtypes: {F: [f32, f|64]}")}
    assert labels("summary: Every| kernel of rows, scaled.") == []


def test_names_in_scope_are_completed() -> None:
    kernel = {*labels("m[*i]     = me|an[*i]")}
    assert kernel >= {
        "x",
        "y",
        "o",
        "n",
        "axis",
        "epsilon",
        "mean",
        "i",
        "j",
        "most",
        "twice",
        "log1p_exp",
        "sum",
        "tanh",
        "F",
    }
    assert not kernel & {"halved", "np", "finite", "of_rows"}
    rule = {*labels("most = max(s|um(sizes), 1)")}
    assert rule >= {"n", "sizes", "infer_size"} and not rule & {"mean", "tanh"}
    assert {*labels("reference: ha|lved(x)")} == {"x", "epsilon", "sizes", "axis", "halved", "np", "scipy"}
    signature = {*labels('outputs: {y: "F[*o, *|n]", m: "F[*o]"}')}
    assert signature >= {"o", "n", "F", "axis"} and not signature & {"mean", "i", "most"}


@pytest.mark.parametrize(
    ("mark", "lines"),
    [
        ("m[*i]     = me|an[*i]", ["**mean**: intermediate tensor", "- of dtype F and shape `o`", "declared at specs/mine.yaml:26:7"]),
        ("m[*|i]     = mean[*i]", ["**i**: variable", "- from 0 to below `o`"]),
        ("mean[*i] = sum(twice(x[*i, *|j]) for *j in n) / prod(n)", ["**j**: variable", "- over `n`"]),
        (f"{MEAN}(x[*i, *j]) for *j in |n) / prod(n)", ["**n**: run of dims", "- a vector", "declared at specs/mine.yaml:10:30"]),
        (f"{MEAN}(|x[*i, *j]) for *j in n) / prod(n)", ["**x**: input", "- F is f32, f64", "declared at specs/mine.yaml:10:14"]),
        ("y[*i, *j] = x[*i, *j] / F(eps|ilon) + mean[*i] * most", ["**epsilon**: parameter", "    epsilon: {kind: float, default: 0.5}"]),
        ("y[*i, *j] = x[*i, *j] / |F(epsilon) + mean[*i] * most", ["**F**: dtype variable", "- F is f32, f64"]),
        ("most = max(sum(siz|es), 1)", ["- an operand of `dyn.scaled`, an attribute of `static.scaled`"]),
        ("most = max(s|um(sizes), 1)", ["`sum(v)`"]),
        ("mean[*i] = sum(tw|ice(x[*i, *j]) for *j in n) / prod(n)", ["**twice**: function", "declared at specs/mine.yaml:6:7"]),
        ("reference: ha|lved(x)", ["**halved**: oracle", "declared at specs/mine.yaml:3:7"]),
        ("summ|ary: Every kernel of rows, scaled.", ["**summary**: One sentence for the op's page."]),
        ("epsilon: {kind|: float, default: 0.5}", [f"**kind**: {PARAM_KEYS[0].doc}"]),
        ("- {x|: [2, 3], y: [2, 3]}", ["**x**: input"]),
    ],
)  # fmt: skip
def test_what_a_name_is(mark: str, lines: list[str]) -> None:
    text = shown(mark)
    assert [line for line in lines if line not in text.split("\n")] == [], text


@pytest.mark.parametrize(
    "mark", ["summary: Every ker|nel of rows, scaled.", "family: of_|rows", "- {x: [|2, 3], y: [2, 3]}"]
)
def test_what_is_no_name_has_no_hover(mark: str) -> None:
    assert shown(mark) == ""


def test_an_op_with_errors_has_its_declarations_and_what_was_inferred_last() -> None:
    broken = SPEC.replace("/ F(epsilon) + mean", "/ (epsilon + mean")
    at = place("m[*i]     = me|an[*i]")
    last = next(a for a in analyse(CONTENTS, complete=False).ops if a.spec.name == "scaled")
    before = hover(PATH, *at, {**CONTENTS, PATH: broken})
    after = hover(PATH, *at, {**CONTENTS, PATH: broken}, last)
    assert isinstance(before, Hover) and "intermediate tensor" in before.text and "of dtype" not in before.text
    assert isinstance(after, Hover) and "of dtype F and shape `o`" in after.text
    assert (after.start, after.end) == (18, 22)


def test_declarations() -> None:
    assert declaration(PATH, *place("y[*i, *j] = x[*i, *j] / F(epsilon) + mean[*i] * mo|st"), CONTENTS) is not None
    place_of_series = declaration(PATH, 0, 4, {PATH: "define: |\n  def f(v): return atan_series(v)\n"})
    assert place_of_series is None, "a key"
    text = "define: |\n  def f(v): return atan_series(v)\n"
    found_in = declaration(PATH, 1, 25, {PATH: text, SHOWN: own_library()})
    assert found_in is not None and found_in[0] == SHOWN and found_in[1].name == "atan_series"


def test_families_and_names_of_an_op() -> None:
    lines = SPEC.split("\n")
    assert [*entries(lines, "ops")] == ["scaled"] and [*entries(lines, "families")] == ["of_rows"]
    kinds = {n.name: n.what for n in declared(lines, "ops", "scaled")}
    assert kinds["x"] is What.INPUT and kinds["axis"] is What.PARAM, "of the family"
    assert kinds["y"] is What.OUTPUT and kinds["mean"] is What.TENSOR
    for name in declared(lines, "ops", "scaled"):
        assert lines[name.line][name.column :].startswith(name.name)
    itself = ["families:", "  a:", "    family: b", "  b:", "    family: a"]
    assert declared(itself, "families", "a") == []


@pytest.mark.parametrize("name", ["reduction", "window", "text"])
def test_names_of_our_specs_stand_where_they_are_declared(name: str) -> None:
    """Patterns find what the analysis knows: every input, output and parameter."""
    text = (ROOT / f"specs/{name}.yaml").read_text()
    lines = text.split("\n")
    for spec in load_file(f"specs/{name}.yaml", text, Findings(), read_library({}, Findings(), Memo())).ops:
        names_of = {n.name: n for n in declared(lines, "ops", spec.name)}
        for what, known in ((What.INPUT, spec.inputs), (What.OUTPUT, spec.outputs), (What.PARAM, spec.params)):
            for one in known:
                at = names_of[one.name]
                assert at.what is what and lines[at.line][at.column :].startswith(one.name), (spec.name, one.name)


def answers(text: str, line: int, column: int) -> None:
    contents = {**CONTENTS, PATH: text}
    suggestions(text.split("\n"), line, column, contents)
    hover(PATH, line, column, contents)
    declaration(PATH, line, column, contents)


REAL = (ROOT / "specs/scan.yaml").read_text()


def test_every_prefix_of_a_spec_has_answers() -> None:
    for end in [*range(0, len(REAL), 97), *range(600, 700)]:
        text = REAL[:end]
        answers(text, text.count("\n"), len(text) - text.rfind("\n") - 1)


def test_texts_with_pieces_cut_out_have_answers() -> None:
    for seed in range(60):
        draw = random.Random(seed)
        begin = draw.randrange(len(REAL))
        text = (
            REAL[:begin]
            + draw.choice(["", "\0", "{", "[", '"', "'", "|", "\t", "]}", "for ", "\ud800", "é\U0001f600"])
            + REAL[begin + draw.randrange(200) :]
        )
        answers(text, draw.randrange(-2, text.count("\n") + 3), draw.randrange(-2, 150))


@pytest.mark.parametrize(
    "text",
    [
        "", "\n", "{", "[" * 5000, "ops: " + "{a: " * 3000, "ops:\n" + "".join(" " * k + "a:\n" for k in range(999)), "\t\t\t:",
        "- - - -", "? :", "&a *a", "ops:\n  f:\n    kernel: |", "ops:\n  f:\n    kernel: \"y[", "ops:\n  f:\n    inputs: {x: ",
        ":\n" * 50, "x" * 200_000, "def " * 20_000, "ops:\n  f:\n    kernel: |\n      " + "y[" * 5000,
    ],
)  # fmt: skip
def test_hostile_texts_have_answers(text: str) -> None:
    lines = text.split("\n")
    for line in (0, len(lines) // 2, len(lines) - 1):
        answers(text, line, len(lines[line]))


def test_findings_are_those_of_the_command() -> None:
    checker = Checker(Memo())
    assert [d.is_error for d in checker.check({PATH: SPEC})[PATH]] == [True], "an assert without an example"
    whole = SPEC.replace("    examples:\n", "    examples:\n      - {x: [0, 0], error: rows of nothing}\n")
    (advised,) = checker.check({PATH: whole})[PATH]
    assert not advised.is_error and "has values" in advised.text
    wrong = checker.check({PATH: whole.replace("* most", "* must"), "specs/other.yaml": "ops: {}\n"})
    (error,) = wrong[PATH]
    assert (
        error.is_error
        and error.finding.span.line == 28
        and "in scope: " in error.text
        and wrong["specs/other.yaml"] == []
    )
    assert [d.finding.text for d in checker.check({PATH: whole})[PATH]] == [advised.finding.text]


def test_indices_out_of_bounds_are_findings_of_what_is_saved() -> None:
    text = """ops:
  shifted:
    summary: Every element before its place.
    inputs: {x: "F[n]"}
    outputs: {y: "F[n]"}
    dtypes: {F: [f32]}
    kernel: "y[i] = x[i + 1]"
    reference: np.roll(x, -1)
    examples: [{x: {value: [1.0]}, y: {value: [1.0]}}]
"""
    checker = Checker(Memo())
    assert checker.check({PATH: text})[PATH] == []
    (error,) = checker.check({PATH: text}, {PATH})[PATH]
    assert error.is_error and "out of bounds" in error.text
    assert checker.check({PATH: text.replace("i + 1", "i")}, {PATH})[PATH] == []


def test_half_written_specs_have_findings() -> None:
    checker = Checker(Memo())
    for end in range(100, len(SPEC), 90):
        assert isinstance(checker.check({PATH: SPEC[:end]}), dict)
