"""Tests of the sample of the tests that `make test` runs: what it leaves out, that all samples together have everything, and its record."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest

from tests.conftest import processor_seconds
from tests.sampling import SAMPLES, SHARE, asked, measured, period, recorded, reported, sampled

LONG, PAIRS, BRIEF = "a.py::test_long", "a.py::test_of_twice_the_share", "b.py::test_brief"
CASES = 100 * SAMPLES
RECORD = {LONG: {str(k): 100 * SHARE for k in range(CASES)}, PAIRS: {str(k): 2 * SHARE for k in range(CASES)}}


def kept(sample: int, function: str, mark: str = "") -> set[int]:
    """The cases of a function that a sample has."""
    cases = [
        SimpleNamespace(nodeid=f"{function}[{k}]", get_closest_marker=lambda asked: asked == mark, number=k)
        for k in range(CASES)
    ]
    remain, left = sampled(cases, RECORD, sample)
    assert sorted(c.number for c in (*remain, *left)) == [*range(CASES)]
    return {c.number for c in remain}


def test_a_sample_has_a_share_of_what_takes_long() -> None:
    for function, share in ((LONG, 1 / SAMPLES), (PAIRS, 1 / 2), (BRIEF, 1)):
        of_samples = [kept(k, function) for k in range(SAMPLES)]
        assert all(0.6 * share <= len(cases) / CASES <= 1.5 * share for cases in of_samples)
        assert sum(map(len, of_samples)) == CASES * SAMPLES * share
        assert set().union(*of_samples) == {*range(CASES)}


def test_functions_of_a_folder_have_the_same_cases() -> None:
    again, elsewhere = "a/b.py::test_b", "b/a.py::test_long"
    record = dict.fromkeys(("a/a.py::test_a", again, elsewhere), RECORD[LONG])
    with mock.patch.dict(RECORD, record):
        assert kept(1, "a/a.py::test_a") == kept(1, again) != kept(1, elsewhere)


def test_a_sample_has_what_is_marked_whatever_it_takes() -> None:
    assert len(kept(0, LONG, "in_every_sample")) == CASES
    assert len(kept(0, LONG, "skip")) < CASES


def test_the_sample_is_that_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, sample in (("3", 3), ("0", 0), ("all", None)):
        monkeypatch.setenv("ANYSHAPE_SAMPLE", text)
        assert asked() == sample
    monkeypatch.delenv("ANYSHAPE_SAMPLE")
    assert asked() is None


def test_what_takes_longer_is_in_fewer_samples_and_always_in_one() -> None:
    assert [period(s * SHARE) for s in (0.0, 1.0, 1.1, 2.0, 3.5, 1000.0)] == [1, 1, 2, 2, 4, SAMPLES]


def test_a_record_has_what_takes_long_by_function_and_case() -> None:
    took = [("a.py::test_b[x[1]]", 0.444), ("a.py::test_b[y]", SHARE), ("a.py::test_c", 12.3)]
    assert measured(took) == {"a.py::test_b": {"x[1]": 0.44}, "a.py::test_c": {"": 12.0}}


def test_reports_name_tests_as_pytest_does(tmp_path: Path) -> None:
    report = tmp_path / "tests.xml"
    case = '<testcase classname="tests.a.test_b" name="test_c[1]" time="0.5"/>'
    report.write_text(f"<testsuites><testsuite>{case}</testsuite></testsuites>")
    assert reported(report) == [("tests/a/test_b.py::test_c[1]", 0.5)]


def test_waiting_takes_no_seconds_of_a_processor_and_work_does() -> None:
    before = processor_seconds()
    time.sleep(0.3)
    waited, until = processor_seconds() - before, time.process_time() + 0.2
    while time.process_time() < until:
        pass
    assert waited < 0.15 < processor_seconds() - before


def test_the_record_is_of_files_that_there_are() -> None:
    assert not [function for function in recorded() if not Path(function.partition("::")[0]).is_file()]
