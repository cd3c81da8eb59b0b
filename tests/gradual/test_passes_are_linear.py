"""The passes are one walk: ten times the nodes take about ten times as long, and a model in which nothing changes takes next to none.
The bounds are loose, since other work may be going on; `benchmarks/passes_speed.py` prints the figures."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from anyshape import passes
from benchmarks.passes_speed import bert, growth, least, reshapes


def test_what_is_measured_does_become_static() -> None:
    done = Counter(n.op.full_name for n in passes.dyn_to_static(reshapes(1000)).nodes)
    assert done["static.reshape"] == done["dyn.reshape"] == 100


def test_ten_times_the_nodes() -> None:
    assert min(growth()[2] for _ in range(2)) < 20


def test_a_bert_in_which_nothing_changes() -> None:
    done = passes.optimise(bert())
    assert len(done.nodes) > 500
    assert len(passes.dyn_to_static(done).nodes) == len(done.nodes)
    assert least(lambda: passes.dyn_to_static(done)) < 0.3
