"""Versions of the language: a newer one is refused, an older one is read or refused with the way to change the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import anyshape
from anyshape import ops
from anyshape.errors import SpecError, UnsupportedError
from anyshape.graph.registry import all_ops, namespaces
from anyshape.package_versions import INTERFACE, PackageVersions, check_interface, read_versions
from anyshape_gen.analysis import analyse
from anyshape_gen.model.analysis import Analysis
from anyshape_gen.parse import versions
from anyshape_gen.parse.versions import CHANGES, FIRST, GENERATORS, LANGUAGE, Change, Scope
from tests.generator.frozen_package import NAME, path_of
from tests.generator.installing import installed, registered

PAGE = (Path(__file__).parents[2] / "docs/spec-language.md").read_text()
OP = """ops:
  halve:
    inputs: {x: "F[*d]"}
    params: {by: {kind: int, default: 2}}
    outputs: {y: "F[*d]"}
    kernel: "y[*i] = abs(x[*i]) / by"
"""
OLD = """language: 1
operators:
  halve:
    inputs: {x: "F[*d]"}
    params: {by: {type: int, default: 2}}
    outputs: {y: "F[*d]"}
    equations: "y[*i] = magnitude (x[*i]) / by"
"""
MADE_UP = (
    Change(2, Scope.FILE, "operators", "ops"),
    Change(2, Scope.PARAM, "type", "kind"),
    Change(2, Scope.FUNCTION, "magnitude", "abs"),
    Change(3, Scope.OP, "equations", "kernel"),
    Change(3, Scope.OP, "schedule", None, "leave it out, the compiler chooses"),
    Change(3, Scope.FUNCTION, "shuffle", None, "index with a parameter of kind `ints`"),
)


@pytest.fixture
def third(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third version of the language, with made-up changes."""
    monkeypatch.setattr(versions, "LANGUAGE", 3)
    monkeypatch.setattr(versions, "CHANGES", MADE_UP)


def analysis_of(text: str) -> Analysis:
    return analyse({"a.yaml": text}, complete=False)


def refusal_of(text: str) -> str:
    with pytest.raises(SpecError) as refused:
        analysis_of(text)
    return str(refused.value)


def test_the_present_version_is_read() -> None:
    assert analysis_of(f"language: {LANGUAGE}\n{OP}").op("halve") and analysis_of(OP).op("halve")


def test_a_newer_version_is_refused_with_its_place() -> None:
    text = refusal_of(f"language: {LANGUAGE + 1}\nwhat: {{}}\n{OP}")
    assert text.startswith(
        f"a.yaml:1:11: version {LANGUAGE + 1} of the language is newer than this generator: anyshape_gen "
    )
    assert f"reads up to version {LANGUAGE}" in text and "pip install --upgrade" in text
    assert "unknown key" not in text, "what a newer version says is not judged by the words of this one"


@pytest.mark.parametrize("value", ["two", "0", "-1", "1.5", "[1]", '"1"', "", "true", "~", "{a: 1}", "9" * 5000])
def test_what_is_no_version_is_refused(value: str) -> None:
    text = refusal_of(f"language: {value}\n{OP}")
    assert text.startswith("a.yaml:1:1") and ("the version of the language" in text or "is newer than" in text)


def test_an_older_version_is_read(third: None) -> None:
    old, new = analysis_of(OLD).op("halve"), analysis_of(f"language: 3\n{OP}").op("halve")
    assert (old.kernel, old.steps, old.outputs) == (new.kernel, new.steps, new.outputs)


def test_errors_of_an_older_version_stand_in_their_places(third: None) -> None:
    assert refusal_of(OLD.replace("/ by", "/ bye")).startswith("a.yaml:7:45: unknown name 'bye'")
    assert refusal_of(OLD.replace("type: int,", "type: integer,")).startswith("a.yaml:5:25: unknown kind 'integer'")


def test_a_file_without_a_version_is_of_the_first(third: None) -> None:
    assert analysis_of(OLD.removeprefix("language: 1\n")).op("halve")
    assert "unknown key 'operators'" in refusal_of(OLD.replace("language: 1", "language: 3"))


def test_a_version_between_has_the_changes_after_it(third: None) -> None:
    between = OP.replace("kernel:", "equations:")
    assert analysis_of(f"language: 2\n{between}").op("halve")
    assert "unknown key 'equations'" in refusal_of(f"language: 3\n{between}")
    assert "unknown key 'operators'" in refusal_of(OLD.replace("language: 1", "language: 2"))


def test_what_has_no_new_name_is_refused_with_the_way_to_change_it(third: None) -> None:
    text = refusal_of(OLD + "    schedule: rows\n    shape: n = shuffle(d)\n")
    assert (
        "a.yaml:8:5: the key 'schedule' of language 1 is gone since version 3: leave it out, the compiler chooses; then the file is of "
        "`language: 3`"
    ) in text
    assert (
        "a.yaml:9:16: the function 'shuffle' of language 1 is gone since version 3: index with a parameter of kind `ints`"
        in text
    )


def test_an_old_key_beside_the_new_one_is_refused(third: None) -> None:
    text = refusal_of(OLD + '    kernel: "y[*i] = x[*i]"\n')
    assert "a.yaml:7:5: 'equations' of language 1 is 'kernel', which is there too" in text


def test_a_name_within_another_is_none_of_the_function(third: None) -> None:
    """Only calls of the function are renamed: no dim of its name, no longer name, no method."""
    text = OLD.replace("F[*d]", "F[*magnitude]").replace("/ by", "/ by / prod(magnitude)")
    assert analysis_of(text).op("halve")


def test_the_table_of_changes_is_whole() -> None:
    assert [*GENERATORS] == [*range(FIRST, LANGUAGE + 1)]
    assert all(FIRST < change.since <= LANGUAGE and (change.now or change.advice) for change in CHANGES)
    for version, generator in GENERATORS.items():
        assert f"\n| {version} | {generator} | " in PAGE


SPEC = (
    OP
    + """    summary: Half of the magnitude of each element.
    reference: np.abs(x) / x.dtype.type(by)
    examples:
      - {x: {value: [-2.0]}, y: {value: [1.0]}}
"""
)


def test_a_package_says_its_versions_and_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with installed("halving", SPEC.replace("halve", "halving_of"), tmp_path, monkeypatch):
        assert read_versions(tmp_path / "halving/versions.json") == PackageVersions(LANGUAGE, INTERFACE)
        assert "halving_of" in all_ops()
        (tmp_path / "halving/versions.json").unlink()
        for known in (all_ops, namespaces):
            known.cache_clear()
        assert "halving_of" in all_ops(), "a package of before there were versions is of the first ones"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"language": 1, "interface": 99}', "interface 99 of the run time, and anyshape .* has 1: install a later anyshape"),
        ('{"language": 1, "interface": 0}', "interface 0 of the run time, .*: generate it again, by the anyshape_gen of this version"),
        ('{"language": 1}', "does not have the versions"),
        ('{"language": 1, "interface": "1"}', "a version is a number, got '1'"),
        ("[" * 100_000, "does not have the versions"),
        ("", "does not have the versions"),
    ],
)  # fmt: skip
def test_a_package_of_other_versions_is_refused_before_it_is_imported(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with installed("other_versions", SPEC.replace("halve", "halving_of"), tmp_path, monkeypatch):
        (tmp_path / "other_versions/versions.json").write_text(text)
        (tmp_path / "other_versions/__init__.py").write_text("raise AssertionError('imported')\n")
        with pytest.raises(UnsupportedError, match=message):
            all_ops()


def test_the_present_interface_is_let_pass() -> None:
    check_interface("mine", PackageVersions(language=99, interface=INTERFACE))


def test_versions_are_those_of_the_generator() -> None:
    own = Path(__file__).parents[2] / "generated/anyshape_ops/versions.json"
    assert json.loads(own.read_text()) == {"language": LANGUAGE, "interface": INTERFACE}


RAISE = (
    "code of interface {} does not run any more: raise INTERFACE, and run `python -m tests.generator.frozen_package`"
)


def test_code_of_an_earlier_generator_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is as it was when the interface got its number, so that a change of the run time that breaks it is noticed."""
    package = tmp_path / NAME
    for name, text in json.loads(path_of(INTERFACE).read_text()).items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    info = tmp_path / f"{NAME}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[anyshape.ops]\n{NAME} = {NAME}:OPS\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with registered(NAME):
        try:
            results = results_of_frozen_ops()
        except Exception as e:
            raise AssertionError(RAISE.format(INTERFACE)) from e
    x = np.array([1, -2, 3, 4], np.float32)
    for got, want in zip(
        results, (x[:2] / (1 + np.exp(-2 * x[2:])), x[:2] / 2, x[1:3], x[x > 0], np.cumsum(x)), strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def results_of_frozen_ops() -> list[np.ndarray]:
    x = anyshape.input("x", "f32[n]")
    start = anyshape.input("start", "i64[]")
    window = anyshape.function([x, start], ops.frozen_window(x, start=start, length=2))
    calls = (
        (ops.frozen_gate(x, slope=2.0), ()), (ops.frozen_gate(x, mode="halved"), ()), (window, (np.array(1),)),
        (ops.frozen_positives(x), ()), (ops.frozen_sum(x), ()),
    )  # fmt: skip
    values = np.array([1, -2, 3, 4], np.float32)
    functions = [(y if y is window else anyshape.function([x], y), more) for y, more in calls]
    return [anyshape.compile(function)(values, *more) for function, more in functions]
