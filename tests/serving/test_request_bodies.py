"""Bodies of inference: what is read out of them, what is refused and how, and that nothing else is raised whatever the bytes are."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from anyshape.dtypes import parse_dtype
from anyshape.serving.datatypes import DATATYPES
from anyshape.serving.http_bodies import decoded, encoded
from anyshape.serving.refusal import RefusedRequest
from anyshape.serving.request import InferRequest, RequestedOutput

I64 = {"name": "x", "datatype": "INT64", "shape": [2, 2], "data": [[1, 2], [3, 4]]}


def body(**changes: Any) -> bytes:
    return json.dumps({"inputs": [{**I64, **changes}]}).encode()


def test_elements_nested_and_flat() -> None:
    for data in ([[1, 2], [3, 4]], [1, 2, 3, 4]):
        np.testing.assert_array_equal(decoded(body(data=data), None).inputs["x"], [[1, 2], [3, 4]])
    assert decoded(body(shape=[0, 7], data=[]), None).inputs["x"].shape == (0, 7)
    floats = decoded(
        b'{"inputs": [{"name": "x", "datatype": "FP32", "shape": [3], "data": [1, NaN, -Infinity]}]}', None
    )
    np.testing.assert_array_equal(floats.inputs["x"], np.array([1, np.nan, -np.inf], np.float32))


REFUSED: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{", "no JSON"),
    "no text": (b"\xff\xfe", "no JSON"),
    "a list": (b"[]", "JSON object"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "deep data": (body().replace(b"[[1, 2], [3, 4]]", b"[" * 900 + b"]" * 900), "but data has 1"),
    "a long number": (b'{"inputs": ' + b"9" * 10_000 + b"}", "no JSON"),
    "no inputs": (b"{}", "inputs must be a list"),
    "twice": (json.dumps({"inputs": [I64, I64]}).encode(), "twice"),
    "no name": (body(name=7), "must be a text"),
    "datatype": (body(datatype="INT65"), "datatype must be one of"),
    "bytes": (body(datatype="BYTES"), "datatype must be one of"),
    "list for a datatype": (body(datatype=[]), "datatype must be one of"),
    "negative size": (body(shape=[-2, -2]), "a size must be a whole number"),
    "size of a float": (body(shape=[2.0, 2]), "a size must be a whole number"),
    "size of NaN": (body(shape=[float("nan"), 2]), "a size must be a whole number"),
    "size of a truth": (body(shape=[True, 4]), "a size must be a whole number"),
    "huge size": (body(shape=[2**63, 2]), "a size must be a whole number"),
    "huge product": (body(shape=[2**62, 2**62]), "elements, but data has 4"),
    "many sizes": (body(shape=[1] * 65), "at most 64"),
    "text for a shape": (body(shape="22"), "shape must be a list"),
    "too few": (body(data=[1]), "has 4 elements, but data has 1"),
    "ragged": (body(data=[[1], [2, 3, 4]]), "of one length"),
    "mixed": (body(data=[[1, 2], 3, 4]), "lists beside numbers"),
    "text": (body(data=[["1", 2], [3, 4]]), "cannot be str"),
    "floats": (body(data=[1.5, 2, 3, 4]), "cannot be float"),
    "truths": (body(data=[True, 2, 3, 4]), "cannot be bool"),
    "none": (body(data=None), "data must be a list"),
    "large element": (body(data=[2**64, 2, 3, 4]), "out of range"),
    "out of bytes": (body(datatype="UINT8", data=[-1, 2, 3, 4]), "out of range"),
    "float too long": (body(datatype="FP32", data=[10**400, 2, 3, 4]), "out of range"),
    "binary that is not there": (body(parameters={"binary_data_size": 8}), "data beside binary_data_size"),
    "binary size": (json.dumps({"inputs": [{**I64, "parameters": {"binary_data_size": "32"}}]}).encode(), "binary_data_size"),
    "parameters": (body(parameters=[]), "must be a JSON object"),
    "outputs": (json.dumps({"inputs": [I64], "outputs": [3]}).encode(), "must be a JSON object"),
    "flag": (json.dumps({"inputs": [I64], "parameters": {"binary_data_output": 1}}).encode(), "true or false"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(case: str) -> None:
    text, words = REFUSED[case]
    with pytest.raises(RefusedRequest, match=words) as e:
        decoded(text, None)
    assert 400 <= e.value.status < 500
    assert len(str(e.value)) < 1000


@pytest.mark.parametrize("dtype", DATATYPES)
def test_binary_data_and_back(dtype: Any) -> None:
    a = np.array([[0, 1, 1], [1, 0, 1]]).astype(parse_dtype(dtype).numpy)
    tensor = {"name": "x", "datatype": DATATYPES[dtype], "shape": [2, 3], "parameters": {"binary_data_size": a.nbytes}}
    text = json.dumps({"id": "7", "inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    request = decoded(text + a.tobytes(), str(len(text)))
    np.testing.assert_array_equal(request.inputs["x"], a)
    answer, length = encoded("m", request, {"y": a})
    assert length is not None
    said = json.loads(answer[:length])
    assert (said["id"], said["outputs"][0]["shape"], answer[length:]) == ("7", [2, 3], a.tobytes())
    plain, no_length = encoded(
        "m", InferRequest(id="", inputs={}, requested=[RequestedOutput(name="y", is_binary=False)]), {"y": a}
    )
    assert no_length is None
    np.testing.assert_array_equal(np.array(json.loads(plain)["outputs"][0]["data"]).reshape(2, 3), a.astype(np.float64))


@pytest.mark.parametrize(
    ("size", "header", "words"),
    [
        (32, "9999", "must be from 0"),
        (32, "-1", "must be from 0"),
        (32, "x", "must be from 0"),
        (24, None, "left over"),
        (16, None, "has 32 bytes, got 16"),
    ],
)
def test_wrong_binary_sizes(size: int, header: str | None, words: str) -> None:
    said = 16 if size == 16 else 32
    text = json.dumps(
        {"inputs": [{"name": "x", "datatype": "INT64", "shape": [2, 2], "parameters": {"binary_data_size": said}}]}
    )
    extra = b"\0" * (40 if size == 24 else size)
    with pytest.raises(RefusedRequest, match=words):
        decoded(text.encode() + extra, header if header is not None else str(len(text)))


def test_a_byte_of_bool_is_0_or_1() -> None:
    text = json.dumps(
        {"inputs": [{"name": "x", "datatype": "BOOL", "shape": [2], "parameters": {"binary_data_size": 2}}]}
    )
    assert decoded(text.encode() + b"\0\1", str(len(text))).inputs["x"].tolist() == [False, True]
    with pytest.raises(RefusedRequest, match="0 or 1"):
        decoded(text.encode() + b"\0\2", str(len(text)))


def test_changed_bytes_are_read_or_refused() -> None:
    rng = np.random.default_rng(11)
    text = json.dumps({"inputs": [{**I64, "parameters": {"k": 1}}], "outputs": [{"name": "y"}]}).encode()
    outcomes = set()
    for _ in range(3000):
        changed = bytearray(text)
        for _ in range(rng.integers(1, 4)):
            changed[rng.integers(len(changed))] = rng.integers(256)
        try:
            decoded(bytes(changed), None)
            outcomes.add("read")
        except RefusedRequest:
            outcomes.add("refused")
    assert outcomes == {"read", "refused"}
