"""A library and an onnxruntime that do not fit: refused with a text, in processes of their own, since what is wrong here might end one."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from anyshape.cli.show import variant
from anyshape.custom_ops import Library, OpCall, library_of
from anyshape.custom_ops.c_interface import ELEMENT_TYPES, ENTRIES, VERSION, ApiFunction
from anyshape.custom_ops.c_tables import c_text
from anyshape.dtypes import parse_dtype
from anyshape.frontends.onnx.dtypes import NUMBER_OF
from anyshape.vm.export import export_target
from anyshape_testing.laws.custom_ops import missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())
PLACES = {e.name: e.place for e in ENTRIES}
REGISTERS = """
import sys, onnxruntime
try:
    onnxruntime.SessionOptions().register_custom_ops_library(sys.argv[1])
except Exception as e:
    print(e)
else:
    print("registered")
"""
"""A process that registers a library."""


@pytest.fixture(scope="module")
def library() -> Library:
    return library_of([OpCall(variant("exp"), {"x": "f32[n]"}, {})], "one_op", export_target(None))


def with_entries(library: Library, places: dict[str, int]) -> Library:
    """The library with other places of functions in the table."""
    entries: Sequence[ApiFunction] = [replace(e, place=places.get(e.name, e.place)) for e in ENTRIES]
    return replace(library, text=c_text(library.name, library.domain, library.kernels, entries))


def answer(program: str, *words: str) -> str:
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    return done.stdout


def test_the_table_as_it_is_written_down_is_accepted(library: Library, tmp_path: Path) -> None:
    assert answer(REGISTERS, str(library.write(tmp_path)[-1])) == "registered\n"


@pytest.mark.parametrize(("places", "named"), [
    ({"GetErrorCode": PLACES["GetErrorCode"] + 1}, "GetErrorCode"),
    ({"GetTensorMutableData": PLACES["GetTensorMutableData"] - 1}, "GetTensorMutableData"),
    ({"GetDimensions": PLACES["GetDimensions"] + 2}, "GetDimensions"),
    ({"GetTensorElementType": PLACES["GetDimensionsCount"], "GetDimensionsCount": PLACES["GetTensorElementType"]}, "GetTensorElementType"),
])  # fmt: skip
def test_a_wrong_place_is_refused_by_name(places: dict[str, int], named: str, library: Library, tmp_path: Path) -> None:
    said = answer(REGISTERS, str(with_entries(library, places).write(tmp_path)[-1]))
    assert f"one_op: custom ops need onnxruntime 1.{VERSION} or a later 1.x" in said
    assert f"{named} of its C interface does something else" in said


FAKE = """
import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
version, newest = sys.argv[2].encode(), int(sys.argv[3])
CREATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
GET = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)
SPELL = ctypes.CFUNCTYPE(ctypes.c_char_p)
def create(code, text):
    print(code, text.decode())
    return 1
create_status = CREATE(create)
table = (ctypes.c_void_p * 500)(ctypes.cast(create_status, ctypes.c_void_p).value)
get = GET(lambda n: ctypes.addressof(table) if n <= newest else None)
spell = SPELL(lambda: version)
class Base(ctypes.Structure):
    _fields_ = [("get", GET), ("spell", SPELL)]
register = library.RegisterCustomOps
register.restype, register.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_void_p]
print(register(None, ctypes.addressof(Base(get, spell))))
"""
"""A process in which an onnxruntime of some version has a table whose first function makes statuses, and no others."""


@dataclass(frozen=True)
class Pretended:
    version: str
    newest: int
    said: str


@pytest.mark.parametrize("pretended", [
    Pretended("1.16.3", 16, "this is 1.16.3: its version differs"), Pretended("2.0.0", 40, "this is 2.0.0: its version differs"),
    Pretended("unknown", 40, "this is unknown: its version differs"),
    Pretended("1.30.0", 16, "this is 1.30.0: it does not have that version of the C interface"),
], ids=lambda p: p.version)  # fmt: skip
def test_another_onnxruntime_is_refused(pretended: Pretended, library: Library, tmp_path: Path) -> None:
    said = answer(FAKE, str(library.write(tmp_path)[-1]), pretended.version, str(pretended.newest))
    assert (
        said.endswith("\n1\n")
        and said.startswith("9 one_op: custom ops need onnxruntime 1.17")
        and pretended.said in said
    )


def test_an_onnxruntime_without_any_table_is_refused_on_standard_error(library: Library, tmp_path: Path) -> None:
    words = [sys.executable, "-c", FAKE, str(library.write(tmp_path)[-1]), "1.30.0", "0"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "None\n") and "does not have that version" in done.stderr


def test_places_and_numbers_are_said_once() -> None:
    assert len({e.name for e in ENTRIES}) == len({e.place for e in ENTRIES}) == len(ENTRIES)
    assert {n: NUMBER_OF[parse_dtype(n)] for n in ELEMENT_TYPES} == ELEMENT_TYPES, (
        "onnxruntime's numbers are those of ONNX"
    )
    assert ctypes.sizeof(ctypes.c_void_p) == 8
