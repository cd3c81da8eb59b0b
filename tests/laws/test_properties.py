"""Properties are known by name at once, and imported where an op is tested."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest

from anyshape.properties import Case, LazyProperties, Property
from anyshape_testing.calls.packages import KnownProperties, register

KNOWN_WITHOUT_IMPORTS = """
import sys
from anyshape_testing.calls.packages import PROPERTIES, register

def imported():
    return {n.split(".")[2] for n in sys.modules if n.startswith("anyshape_ops.strategies.")}

found = register("anyshape_ops")
for known in (found, PROPERTIES):
    assert "softmax" in known and "no_op" not in known and len(known) == len(list(known)) > 200
assert not imported(), imported()
assert PROPERTIES["softmax"].op == "softmax" and PROPERTIES["softmax"] is found["softmax"]
assert imported() == {"rows"}, imported()
"""
WHILE_SOMEBODY_WAITS = """
import sys
from anyshape_testing.quick import checks

assert len(checks("anyshape_ops", "reshape")) > 5
large = {"pytest", "scipy"} & set(sys.modules)
assert not large, large
"""


def own(op: str) -> Property:
    return Property(op, lambda d: Case({}, {}), lambda: None, ())


@pytest.mark.parametrize("script", [KNOWN_WITHOUT_IMPORTS, WHILE_SOMEBODY_WAITS])
def test_what_no_law_of_the_op_needs_is_not_imported(script: str) -> None:
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_every_op_has_its_own() -> None:
    properties = register("anyshape_ops")
    assert isinstance(properties, Mapping) and [p.op for p in properties.values()] == list(properties)


def test_an_op_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        register("anyshape_ops")["no_op"]


def test_what_cannot_be_imported_is_missed_when_it_is_asked_for() -> None:
    properties = LazyProperties("no_package.strategies", {"halve": "rows.HALVE"})
    assert "halve" in properties and list(properties) == ["halve"]
    with pytest.raises(ImportError):
        properties["halve"]


def test_known_properties_are_those_of_the_last_that_said_some() -> None:
    known, first, second, third = KnownProperties(), own("halve"), own("halve"), own("halve")
    known.add({"halve": first, "double": own("double")})
    known.add({"halve": second})
    assert known["halve"] is second and list(known) == ["halve", "double"] and len(known) == 2
    known["halve"] = third
    assert known["halve"] is third
    del known["halve"]
    assert "halve" not in known and "double" in known
