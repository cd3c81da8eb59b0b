"""The sample of the tests that `make test` runs: of cases that take long, one in so many.

`tests/seconds.json` says how many seconds of a processor cases take, those of at most `SHARE` aside. A case of n times as many is in one
of n samples, at most `SAMPLES`: all samples together have all cases, and `make test-long` runs them in one go. Which sample,
ANYSHAPE_SAMPLE says; without it nothing is left out. What must hold in each sample, whatever it takes, is marked `in_every_sample`.

    make test SAMPLE=all    # nothing is left out; writes build/tests.xml
    python -m tests.sampling build/tests.xml    # writes tests/seconds.json
"""

from __future__ import annotations

import argparse
import json
import math
import os
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

SHARE = 0.05
"""Seconds that a case takes at most of a sample, on average over samples"""
SAMPLES = 8
RECORD = Path(__file__).with_name("seconds.json")

Seconds = Mapping[str, Mapping[str, float]]
"""Seconds of a processor by function, `tests/test_a.py::test_b`, and by the text between the brackets of a case, which may be empty"""


def sampled(items: Sequence[Any], seconds: Seconds, sample: int) -> tuple[list[Any], list[Any]]:
    """Divides tests into those that a sample has, in their order, and those that it leaves out."""
    kept: list[Any] = []
    left: list[Any] = []
    for item in items:
        function, case = split(item.nodeid)
        every = period(seconds.get(function, {}).get(case, 0.0))
        has = (sample + _number(function, case)) % every == 0 or item.get_closest_marker("in_every_sample")
        (kept if has else left).append(item)
    return kept, left


def _number(function: str, case: str) -> int:
    """Returns a number of a case, which is the same for all functions of a folder: laws of one op share what was compiled for it."""
    folder = function.partition("::")[0].rpartition("/")[0]
    return zlib.crc32(f"{folder} {case}".encode() if case else function.encode())


def period(seconds: float) -> int:
    """Returns of how many consecutive samples one has a case that takes so long."""
    return min(SAMPLES, max(1, math.ceil(seconds / SHARE)))


def split(test: str) -> tuple[str, str]:
    """Splits the identifier of a test into its function and its case."""
    function, _, case = test.partition("[")
    return function, case.removesuffix("]")


def asked() -> int | None:
    """Returns the sample that ANYSHAPE_SAMPLE names; None where nothing is left out."""
    text = os.environ.get("ANYSHAPE_SAMPLE", "all")
    return None if text == "all" else int(text)


def recorded() -> Seconds:
    record: Seconds = json.loads(RECORD.read_text())
    return record


def measured(reports: Iterable[tuple[str, float]]) -> Seconds:
    """Makes a record of what tests took: of cases of more than `SHARE`, to two digits."""
    seconds: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for test, took in sorted(reports):
        if took > SHARE:
            function, case = split(test)
            seconds[function][case] = float(f"{took:.2g}")
    return seconds


def reported(junit: Path) -> list[tuple[str, float]]:
    """Reads tests and their seconds from a report of pytest; tests of classes have none."""
    cases = ElementTree.parse(junit).getroot().iter("testcase")
    return [
        (f"{c.attrib['classname'].replace('.', '/')}.py::{c.attrib['name']}", float(c.attrib["time"])) for c in cases
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path, help="what `make test SAMPLE=all` wrote: build/tests.xml")
    seconds = measured(reported(parser.parse_args().report))
    RECORD.write_text(json.dumps(seconds, indent=0, ensure_ascii=False) + "\n")
    print(f"{RECORD}: {sum(map(len, seconds.values()))} cases take more than {SHARE} s")


if __name__ == "__main__":
    main()
