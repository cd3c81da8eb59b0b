"""`benchmarks.policies` has a table for each policy of the run time, and figures come out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from anyshape.vm.run.policies import VARIABLE, Policy
from benchmarks.checkouts import Call
from benchmarks.policies import PLANS, Drawing, stream, verdict
from benchmarks.turns import Row
from tests.resident import HANGS

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are stopped in between")


def policies(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.policies", "--quick", *words]
    environment = {**{k: v for k, v in os.environ.items() if k != VARIABLE}, **variables}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=HANGS, check=False
    )


def test_every_policy_has_a_plan() -> None:
    assert set(PLANS) == set(Policy)


def test_a_policy_of_each_kind_has_figures(tmp_path: Path) -> None:
    names = ["spins", "allocator", "reading"]
    done = policies(*names, "--json", str(tmp_path / "out.json"))
    assert done.returncode == 0, done.stderr
    tables = json.loads((tmp_path / "out.json").read_text())
    assert [table["policy"] for table in tables] == names
    for table in tables:
        assert table["cases"] == len(table["rows"]) == 1
        assert min(*table["rows"][0]["here"], *table["rows"][0]["other"]) > 0
        assert table["rows"][0]["difference"] == 0
        assert f"{table['policy']}: with over without {table['mean']:.3f} in the geometric mean" in done.stdout


def test_what_cannot_be_measured_is_refused() -> None:
    assert "there is no policy nothing; there are affinity," in policies("nothing").stderr
    assert "both processes would be without spins" in policies("spins", ANYSHAPE_WITHOUT="spins").stderr


def test_the_same_seed_draws_the_same_calls(tmp_path: Path) -> None:
    first, again, other = (stream(Drawing(Random(seed), ("mlp",), tmp_path)) for seed in ("0", "0", "1"))
    assert shapes(first) == shapes(again) != shapes(other)


def shapes(call: Call) -> list[tuple[int, ...]]:
    return [a.shape for inputs in (call.inputs, *call.following) for a in inputs.values()]


def test_a_policy_is_surely_faster_or_slower_where_both_quartiles_say_so() -> None:
    ones = [1.0] * 5
    rows = [
        Row("half", ones, [0.5] * 5, 0),
        Row("double", ones, [2.0] * 5, 0),
        Row("scattered", ones, [0.5, 0.5, 1.0, 2.0, 2.0], 0),
    ]
    assert verdict(rows) == {"mean": pytest.approx(1), "faster": 1, "slower": 1, "cases": 3}
