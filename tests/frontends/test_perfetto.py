"""Perfetto opens traces of profiles: its trace processor, run by node, answers queries with the slices and counters that were written.

`make test-trace` fetches the trace processor; elsewhere these tests are skipped. ANYSHAPE_PERFETTO is the folder that has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyshape
from anyshape import control, ops
from anyshape.cli.main import main
from anyshape.vm.executable.profile import ProfiledCall, profile
from anyshape.vm.executable.trace import trace_of
from anyshape.vm.run.recorder import Sample
from tests.frontends.test_profile import events, layer

FOLDER = os.environ.get("ANYSHAPE_PERFETTO")
DRIVER = Path(__file__).with_name("perfetto_query.mjs")
MODEL = Path(__file__).parents[2] / "examples/dates/dates.onnx"

pytestmark = [
    pytest.mark.skipif(FOLDER is None, reason="Perfetto's trace processor is not here (make test-trace)"),
    pytest.mark.skipif(shutil.which("node") is None, reason="there is no node here"),
]

QUERIES = {
    "slices": """
        select slice.name, slice.category, slice.ts, slice.dur, slice.depth, parent.name as parent, thread.name as track,
            process.name as process, slice.arg_set_id as arguments
        from slice join thread_track on slice.track_id = thread_track.id join thread using (utid) join process using (upid)
        left join slice parent on slice.parent_id = parent.id""",
    "counters": "select name, ts, cast(value as int) as value from counter join track on counter.track_id = track.id",
    "arguments": "select arg_set_id as arguments, key, display_value as value from args",
    "errors": "select name, value from stats where severity != 'info' and value > 0",
}
SLICE = ("name", "category", "ts", "dur", "track", "process")


class Refused(Exception):
    """Perfetto does not open a trace; the message is its own."""


def opened(path: Path) -> dict[str, list[dict[str, Any]]]:
    """What Perfetto says of a trace, by query."""
    words = ["node", str(DRIVER), str(FOLDER), str(path)]
    done = subprocess.run(words, input=json.dumps(QUERIES), capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Refused(done.stderr[-4000:])
    answers: dict[str, list[dict[str, Any]]] = json.loads(done.stdout)
    assert answers["errors"] == []
    return answers


def written(trace: dict[str, Any]) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Slices and counters of a trace as Perfetto should have them, with times in whole nanoseconds."""
    names = {(e["name"], e["tid"]): e["args"]["name"] for e in events(trace, "M") if "name" in e["args"]}
    slices = [
        (e["name"], e["cat"], round(e["ts"] * 1000), round(e["dur"] * 1000), names["thread_name", e["tid"]])
        for e in events(trace, "X")
    ]
    counters = [
        (f"{e['name']} {part}", round(e["ts"] * 1000), bytes_)
        for e in events(trace, "C")
        for part, bytes_ in e["args"].items()
    ]
    return sorted((*s, names["process_name", 0]) for s in slices), sorted(counters)


def checked(trace: dict[str, Any], path: Path) -> dict[str, list[dict[str, Any]]]:
    """What Perfetto says of a trace of which it must have each slice and counter, and each kernel within its call."""
    answers = opened(path)
    slices, counters = written(trace)
    assert sorted(tuple(s[key] for key in SLICE) for s in answers["slices"]) == slices
    assert sorted((c["name"], c["ts"], c["value"]) for c in answers["counters"]) == counters
    for s in answers["slices"]:
        above = "kernels of call" if s["category"] == "kernel" else ""
        assert s["depth"] == (1 if above else 0) and (s["parent"] or "").startswith(above), s
    return answers


def saved(trace: dict[str, Any], folder: Path) -> Path:
    path = folder / "trace.json"
    path.write_text(json.dumps(trace), encoding="utf-8")
    return path


def test_a_profile_arrives_as_it_was_written(tmp_path: Path) -> None:
    trace = profile(layer(), {"x": np.ones((3000, 64), np.float32)}, repeat=3, threads=2).trace("a </script> naïve 名")
    answers = checked(trace, saved(trace, tmp_path))
    product, *_ = (s for s in answers["slices"] if s["name"] == "matmul+tanh")
    shown = {a["key"]: a["value"] for a in answers["arguments"] if a["arguments"] == product["arguments"]}
    assert shown["args.ops[0]"] == "matmul" and shown["args.ops[1]"] == "tanh" and shown["args.dims.n"] == "3000"
    assert shown["args.operations"] == str(3000 * 32 * 64 * 2 + 3000 * 32) and float(shown["args.GFLOP/s"]) > 0


def test_many_short_kernels_stay_apart(tmp_path: Path) -> None:
    x, n = anyshape.input("x", "f32[k]"), anyshape.input("n", "i64[]")
    f = anyshape.function([x, n], list(control.loop(n, lambda i, v: [ops.softmax(ops.tanh(v))], [x])))
    trace = profile(f, {"x": np.ones(3, np.float32), "n": np.array(200)}, repeat=3).trace("loop")
    checked(trace, saved(trace, tmp_path))
    least = Sample("k", 0.0, 10, 20, (), result=(3,), in_use=64)
    trace = trace_of("no time", [ProfiledCall(5e-6, (least,) * 4), ProfiledCall(0.1234567891, ())], 1)
    checked(trace, saved(trace, tmp_path))


def test_what_the_command_writes_of_a_model(tmp_path: Path) -> None:
    path = tmp_path / "dates.json"
    assert main(["profile", str(MODEL), "--dim", "batch=3", "--repeat", "3", "--trace", str(path)]) == 0
    trace = json.loads(path.read_text())
    assert len(checked(trace, path)["slices"]) == len(events(trace, "X")) > 30


@pytest.mark.parametrize(
    "change", [{"ts": 5.0}, {"dur": 1e6}, {"tid": 1}, {"ts": 8.0, "dur": 0}, {"cat": "call"}, {"ph": "B"}]
)
def test_a_slice_that_is_elsewhere_is_noticed(change: dict[str, Any], tmp_path: Path) -> None:
    sample = Sample("k", 1e-6, 10, 20, (), result=(3,), in_use=64)
    trace = trace_of("m", [ProfiledCall(5e-6, (sample, sample))] * 2, 1)
    checked(trace, saved(trace, tmp_path))
    [*_, last] = events(trace, "X")
    last.update(change)
    with pytest.raises((AssertionError, Refused, KeyError)):
        checked(trace, saved(trace, tmp_path))


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    text = json.dumps(profile(layer(), {"x": np.ones((3, 64), np.float32)}, repeat=1).trace())
    for damaged in (text[: len(text) // 2], "no trace"):
        (tmp_path / "t.json").write_text(damaged)
        with pytest.raises(Refused):
            opened(tmp_path / "t.json")
