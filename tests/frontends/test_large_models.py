"""Weights beyond the 2 GB that protobuf can hold: mapped where they lie, and read no further than they are used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto

from tests.frontends.models import model, node, tensor
from tests.resident import HANGS

ROWS, COLUMNS = 3 << 20, 256  # 3 GiB of f32
MOST = 100 << 20
"""Bytes that loading, compiling and running may add to what is resident"""

SCRIPT = """
import sys
import numpy as np
import anyshape, anyshape.frontends.onnx, anyshape.vm, anyshape.ops

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

anyshape.compile(anyshape.function([x := anyshape.input("x", "f32[n]")], anyshape.ops.relu(x)))(np.ones(3, np.float32))
before = resident()
f = anyshape.compile(sys.argv[1])
last = int(sys.argv[2]) - 1
y = f(np.array([0, last, -1, 5]), np.ones((2, 4), np.float32))
assert y.shape == (2, 4, 256), y.shape
assert y[0, 1, 0] == 8.0 and y[1, 2, 255] == 10.0 and y[0, 0].tolist() == [1.0] * 256, y
print(resident() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="tells resident memory by Linux's own file")
def test_three_gigabytes_are_mapped_and_not_read(tmp_path):
    nodes = [node("Gather", "table ids", "rows"), node("Unsqueeze", "ones two", "wide"), node("Add", "rows wide", "y")]
    inputs = [tensor("ids", ["n"], TensorProto.INT64), tensor("ones", ["b", "n"])]
    proto = model(nodes, inputs, "y", {"two": np.array([2])})
    table = proto.graph.initializer.add(
        name="table", data_type=TensorProto.FLOAT, dims=[ROWS, COLUMNS], data_location=TensorProto.EXTERNAL
    )
    for key, value in {"location": "table.bin", "offset": 64, "length": ROWS * COLUMNS * 4}.items():
        table.external_data.add(key=key, value=str(value))
    with open(tmp_path / "table.bin", "wb") as file:  # sparse: only the last row is there
        file.truncate(64 + ROWS * COLUMNS * 4)
        file.seek(64 + (ROWS - 1) * COLUMNS * 4)
        last = np.zeros(COLUMNS, np.float32)
        last[[0, -1]] = 7, 9
        file.write(last.tobytes())
    (tmp_path / "m.onnx").write_bytes(proto.SerializeToString())
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "m.onnx"), str(ROWS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MOST, f"{int(done.stdout) >> 20} MB more are resident"
