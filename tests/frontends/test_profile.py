"""Profiles: every kernel that runs is there, with what it computes and moves; the tables and the page say so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import anyshape
from anyshape import control, ops
from anyshape.cli.main import main
from anyshape.cli.profile import Limits, by_kernel, by_op
from anyshape.disk_cache import DiskCache
from anyshape.lower import limits
from anyshape.lower.llvm import target_probe
from anyshape.lower.multiply_adds import multiply_adds_of
from anyshape.lower.target import host_target
from anyshape.vm.executable.profile import ProfiledCall, profile
from anyshape.vm.executable.trace import KERNELS, trace_of
from anyshape.vm.run.recorder import Sample

RNG = np.random.default_rng(0)


def layer() -> anyshape.Function:
    x = anyshape.input("x", "f32[n, 64]")
    w = anyshape.constant(RNG.standard_normal((64, 32)).astype(np.float32))
    return anyshape.function([x], ops.softmax(ops.tanh(ops.matmul(x, w))))


def test_operations_and_bytes_are_those_of_the_call() -> None:
    measured = profile(layer(), {"x": np.ones((10, 64), np.float32)}, repeat=2, threads=1)
    product, softmax = measured.samples
    assert product.operations == 10 * 32 * 64 * 2 + 10 * 32  # a product and a sum each, then tanh
    assert product.moved == 4 * (10 * 64 + 64 * 32 + 10 * 32)
    assert softmax.moved == 4 * 2 * 10 * 32
    names = {node.op.name: share for node, share in product.nodes}
    assert names.keys() == {"matmul", "tanh"} and sum(names.values()) == pytest.approx(1) and names["matmul"] > 0.9
    assert measured.kernels > 0 and all(s.seconds >= 0 for s in measured.samples) and measured.call > 0


def test_limits_are_those_of_what_is_multiplied() -> None:
    def multiply_add(f: anyshape.Function, x: Any, **options: Any) -> list[str]:
        return [s.multiply_add for s in profile(f, {"x": x}, repeat=1, threads=1, **options).samples]

    x = np.ones((10, 64), np.float32)
    assert multiply_add(layer(), x) == ["f32", "f32"]
    known = multiply_adds_of(host_target())
    pairs, bytes_ = (f"{kind} tiles" if f"{kind} tiles" in known else kind for kind in ("bf16", "i8"))
    if pairs not in known:
        pairs = "f32"  # factors are rounded, and multiplied as they are
    assert multiply_add(layer(), x, precision="bf16") == [pairs, "f32"]
    image = anyshape.input("x", "f32[1, 8, height, 16]")
    weights = anyshape.constant(RNG.standard_normal((16, 8, 3, 3)).astype(np.float32))
    windows = anyshape.function([image], ops.conv(image, weights, None, pads=(1, 1, 1, 1)))
    pixels = np.ones((1, 8, 16, 16), np.float32)
    assert [multiply_add(windows, pixels, precision=p) for p in ("exact", "bf16")] == [["f32"], [pairs]]
    exact, narrow = (profile(layer(), {"x": x}, 1, precision=p).samples[0] for p in ("exact", "bf16"))
    assert narrow.operations == exact.operations  # roundings are no operations
    wide, codes = anyshape.input("x", "f64[n, 64]"), anyshape.input("x", "u8[n, 64]")
    doubles = anyshape.function([wide], ops.matmul(wide, np.ones((64, 8))))
    assert multiply_add(doubles, x.astype(np.float64)) == ["f64"]
    products = anyshape.function([codes], ops.matmul_integer(codes, np.ones((64, 8), np.int8)))
    assert multiply_add(products, x.astype(np.uint8)) == [bytes_]
    assert multiply_add(anyshape.function([wide], ops.exp(wide)), x.astype(np.float64)) == ["f64"]


def test_a_limit_is_measured_once_on_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in multiply_adds_of(host_target()):
        assert 1 < limits.peak(kind) < 1e5
    monkeypatch.setattr(target_probe, "disk_cache", lambda: DiskCache(tmp_path))
    speeds = iter([3.0, 5.0])
    monkeypatch.setattr(limits, "measure_copy", lambda size: next(speeds))
    for size, speed in ((100_000, 3.0), (1 << 17, 3.0), ((1 << 17) + 1, 5.0), (70_000, 3.0)):
        limits.copy_speed.cache_clear()
        assert limits.copy_speed(size) == speed


def test_of_a_table_the_rows_that_are_picked_are_moved() -> None:
    table = anyshape.constant(RNG.standard_normal((5000, 16)).astype(np.float32))
    rows = anyshape.input("rows", "i64[n]")
    f = anyshape.function([rows], ops.gather(table, rows, axis=0))
    (sample,) = profile(f, {"rows": np.arange(7)}, repeat=1).samples
    assert sample.moved == 7 * 8 + 2 * 4 * 7 * 16 and sample.result == (7, 16)
    (every,) = profile(f, {"rows": np.arange(5000) % 9}, repeat=1).samples
    assert every.moved == 5000 * 8 + 2 * 4 * 5000 * 16


def test_iterations_of_a_loop_and_the_variant_for_empty_dims_are_profiled_too() -> None:
    x, n = anyshape.input("x", "f32[k]"), anyshape.input("n", "i64[]")
    f = anyshape.function([x, n], list(control.loop(n, lambda i, v: [ops.add(ops.tanh(v), v)], [x])))
    measured = profile(f, {"x": np.ones(5, np.float32), "n": np.array(7)}, repeat=2)
    assert sum("tanh" in s.name for s in measured.samples) == 7
    empty = profile(layer(), {"x": np.ones((0, 64), np.float32)}, repeat=1)
    assert all(s.moved in (4 * 64 * 32, 0) for s in empty.samples)


def test_kernels_of_called_functions_are_profiled() -> None:
    from tests.control.test_functions import fibonacci, grows

    measured = profile(grows(), {"x": np.ones(3, np.float32), "k": np.array(4)}, repeat=1)
    assert sum("concat" in s.name for s in measured.samples) == 5
    assert [s.result for s in measured.samples if "concat" in s.name] == [(n,) for n in range(4, 9)]
    assert profile(fibonacci(), {"n": np.array(5)}, repeat=1).samples


def test_only_profiles_keep_what_kernels_came_from() -> None:
    (program, *_) = anyshape.compile(layer()).plan.programs
    assert not program.notes


def test_tables_count_everything_once() -> None:
    measured = profile(layer(), {"x": np.ones((100, 64), np.float32)}, repeat=2)
    machine = Limits({"f32": 100.0}, 10.0)
    for rows in (by_kernel(measured.samples, machine), by_op(measured.samples, machine)):
        assert sum(r.least for r in rows) == pytest.approx(sum(map(machine.least, measured.samples)))
        assert sum(r.seconds for r in rows) == pytest.approx(measured.kernels)
        assert [r.seconds for r in rows] == sorted((r.seconds for r in rows), reverse=True)
    sample = Sample("k", 2e-6, 50_000, 2_000, (), multiply_add="bf16")
    assert Limits({"f32": 100.0, "bf16": 200.0}, 10.0).least(sample) == pytest.approx(0.25e-6)
    (row,) = by_kernel([sample], Limits({"bf16": 200.0}, 1.0))
    assert row.limit == 1.0 and row.multiply_add == "bf16"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8])
    nodes = [helper.make_node("Softmax", ["x"], ["s"], name="rows"), helper.make_node("Tanh", ["s"], ["y"])]
    proto = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    onnx.save(proto, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_the_command_and_its_page(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "p.html"
    assert main(["profile", str(model), "--shape", "x=40x8", "--repeat", "2", "--html", str(page)]) == 0
    said = capsys.readouterr().out
    assert "x 40x8" in said and re.search(r"limits of one core: \d+ GFLOP/s of f32, and \d+ GB/s", said)
    assert re.search(r"^softmax\S* +\d+ +\d+\.\d", said, re.M) and "op of the model" in said
    text = page.read_text()
    assert text.count('<tr id="k') == text.count("<a href=") >= 1
    assert "rows" in text and "http" not in text  # names the node; loads nothing
    assert "40x8" in said and text.count("40x8") >= 3 and text.count("<h2>") == 3  # the result, in each place


def events(trace: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [e for e in trace["traceEvents"] if e["ph"] == kind]


def checked_trace(trace: dict[str, Any]) -> dict[str, Any]:
    """A trace that keeps the format: fields of each kind of event, times that ascend, slices of a track within each other or apart."""
    assert json.loads(json.dumps(trace)) == trace and {e["ph"] for e in trace["traceEvents"]} <= {"X", "M", "C"}
    for e in trace["traceEvents"]:
        assert isinstance(e["name"], str) and isinstance(e["pid"], int) and isinstance(e["args"], dict)
        if e["ph"] == "M":
            assert e["name"] in ("process_name", "thread_name", "thread_sort_index")
            continue
        assert e["ts"] >= 0 and (e["ph"] == "C" or e["dur"] >= (0.001 if e.get("cat") == "kernel" else 0))
        assert e["ph"] == "X" or all(isinstance(n, int) and n >= 0 for n in e["args"].values())
    times = [e["ts"] for e in trace["traceEvents"] if e["ph"] != "M"]
    assert times == sorted(times)
    named = {e["tid"] for e in events(trace, "M") if e["name"] == "thread_name"}
    for track in {e["tid"] for e in events(trace, "X")}:
        assert track in named
        ends: list[int] = []
        for e in (e for e in events(trace, "X") if e["tid"] == track):
            start, end = round(e["ts"] * 1000), round(e["ts"] * 1000) + round(e["dur"] * 1000)
            while ends and ends[-1] <= start:
                ends.pop()
            assert not ends or end <= ends[-1], f"{e['name']} overlaps"
            ends.append(end)
    return trace


@pytest.mark.parametrize("change", [{"ts": 5.0}, {"dur": 1e9}, {"dur": 0.0}, {"tid": 7}, {"ph": "B"}, {"args": None}])
def test_a_trace_that_does_not_keep_the_format_is_noticed(change: dict[str, Any]) -> None:
    sample = Sample("k", 1e-6, 10, 20, (), result=(3,), in_use=64)
    trace = trace_of("m", [ProfiledCall(5e-6, (sample, sample))] * 2, 1)
    checked_trace(trace)
    (last, *_) = reversed(events(trace, "X"))
    last.update(change)
    with pytest.raises((AssertionError, AttributeError)):
        checked_trace(trace)


def test_a_kernel_that_takes_no_time_is_a_slice_within_its_call() -> None:
    sample = Sample("k", 0.0, 10, 20, (), result=(3,), in_use=64)
    trace = checked_trace(trace_of("m", [ProfiledCall(5e-6, (sample,) * 3)], 1))
    whole, *kernels = (e for e in events(trace, "X") if e["tid"] == KERNELS)
    assert [(e["ts"], e["dur"]) for e in kernels] == [(0, 0.001), (0.001, 0.001), (0.002, 0.001)]
    assert (whole["ts"], whole["dur"]) == (0, 0.003)


def test_a_trace_has_every_kernel_of_several_calls_and_memory() -> None:
    measured = profile(layer(), {"x": np.ones((10, 64), np.float32)}, repeat=3, threads=1)
    trace = checked_trace(measured.trace("a </script> name"))
    calls = [e for e in events(trace, "X") if e["cat"] == "call"]
    kernels = [e for e in events(trace, "X") if e["cat"] == "kernel"]
    assert [e["name"] for e in calls] == [f"{what}call {k}" for k in range(3) for what in ("", "kernels of ")]
    assert [e["name"] for e in kernels] == [s.name for s in measured.samples] * 3
    for k, whole in enumerate(calls[1::2]):
        assert sum(round(e["dur"] * 1000) for e in kernels[2 * k : 2 * k + 2]) <= round(whole["dur"] * 1000)
    product = kernels[0]
    assert (product["args"]["dims"], product["args"]["result"]) == ({"n": 10}, [10, 32])
    assert product["args"]["ops"] == ["matmul", "tanh"] and product["args"]["bytes"] == measured.samples[0].moved
    first, second, end = (e["args"] for e in events(trace, "C")[:3])
    assert first["intermediate values"] >= 10 * 32 * 4 <= second["intermediate values"]  # what softmax reads
    assert first["results"] == 10 * 32 * 4 and set(end.values()) == {0}
    assert {e["args"]["name"] for e in events(trace, "M") if e["name"] == "process_name"} == {"a </script> name"}


def test_memory_in_use_within_a_body_is_that_of_its_surroundings_too() -> None:
    x, n = anyshape.input("x", "f32[k]"), anyshape.input("n", "i64[]")
    kept = ops.softmax(x)
    (looped,) = control.loop(n, lambda i, v: [ops.tanh(ops.add(v, kept))], [x])
    f = anyshape.function([x, n], [looped, ops.sum(kept, [0])])
    samples = profile(f, {"x": np.ones(1600, np.float32), "n": np.array(2)}, repeat=1).samples
    assert [s.in_use for s in samples if "tanh" in s.name] == [1600 * 4] * 2


def test_the_command_writes_a_trace(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    words = ["profile", str(model), "--shape", "x=40x8", "--repeat", "2", "--trace"]
    assert main([*words, str(path)]) == 0
    assert f"trace of 2 calls in {path}" in capsys.readouterr().out
    trace = checked_trace(json.loads(path.read_text()))
    assert trace["otherData"]["model"] == f"{model}: x 40x8"
    assert any("rows" in str(e["args"].get("ops")) for e in events(trace, "X"))
    assert main([*words, str(tmp_path / "no" / "t.json")]) == 2
    assert "cannot be written: No such file" in capsys.readouterr().err


def test_what_cannot_be_profiled_or_written(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(model), "--html", str(tmp_path / "no" / "p.html")]) == 2
    assert "cannot be written: No such file" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["profile", str(model), "--repeat", "0"])
    assert "--repeat: it must be a whole number from 1 to 1000000, got '0'" in capsys.readouterr().err
    saved = tmp_path / "m.anyshape"
    assert main(["compile", str(model), "-o", str(saved)]) == 0
    assert main(["profile", str(saved)]) == 2
    assert "profile the ONNX model from which it was compiled" in capsys.readouterr().err
