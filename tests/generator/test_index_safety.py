"""Kernels that leave their tensors are refused with shapes at which they do; those that do not are proved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anyshape_gen.analysis import analyse
from anyshape_gen.bounds.check_op import How, verdicts
from anyshape_gen.bounds.parallel import FEW
from anyshape_gen.bounds.report import page
from anyshape_gen.bounds.safety import prove_indices
from anyshape_gen.bounds.store import FILE, read_record, record_text
from anyshape_gen.emit.bodies.kernels import kernel
from anyshape_gen.memo import Memo
from anyshape_gen.model.source import Findings
from tests.specs import all_specs

ROOT = Path(__file__).parents[2]
HEAD = "ops:\n  an_op:\n    summary: An op.\n    reference: x\n"


def spec(body: str) -> str:
    return HEAD + "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))


def findings_of(body: str) -> tuple[str, dict[str, int]]:
    """What the prover says of one op, and its counts."""
    findings = Findings()
    analysis = analyse({"specs/m.yaml": spec(body)}, complete=False)
    _, records = prove_indices(analysis, {}, findings, Memo())
    return findings.render(), records["an_op"].counts


FLIP = """
inputs: {x: "T[n]"}
outputs: {y: "T[n]"}
kernel: "y[i] = x[n - i]"
examples: [{x: [3], y: [3]}]
"""
SLICE = """
inputs: {x: "T[n]"}
params: {start: {kind: int}, stop: {kind: int}}
outputs: {y: "T[stop - start]"}
shape: assert 0 <= start and start <= stop and stop <= n + 1, "bounds"
kernel: "y[i] = x[start + i]"
examples: [{x: [4], start: 1, stop: 3, y: [2]}]
"""
EDGE_PAD = """
inputs: {x: "T[*d]"}
params: {begin: {kind: "ints[len(d)]"}}
outputs: {y: "T[*(d + begin)]"}
shape: assert begin >= 0, "no negative pads"
kernel: "y[*i] = x[*clamp(i - begin, 0, d - 1)]"
examples: [{x: [2, 3], begin: [1, 0], y: [3, 3]}]
"""
MIRROR_PAD = EDGE_PAD.replace("clamp(i - begin, 0, d - 1)", "reflect(i - begin, d)")
TILE = """
inputs: {x: "T[*d]"}
params: {times: {kind: "ints[len(d)]"}}
outputs: {y: "T[*(d * times)]"}
shape: assert times >= 0, "no negative times"
kernel: "y[*i] = x[*i]"
examples: [{x: [2, 3], times: [1, 2], y: [2, 6]}]
"""
CONVOLUTION = """
inputs: {x: "T[n]", w: "T[k]"}
params: {stride: {kind: int, default: 1}}
outputs: {y: "T[s]"}
shape: |
  assert stride > 0, "a stride is positive"
  s = max(0, (n - k) // stride + ROUNDED)
kernel: "y[p] = sum(x[p * stride + q] * w[q] for q in k)"
examples: [{x: [5], w: [2], y: [4]}]
"""
UNKNOWN_RANK = """
inputs: {x: "T[m, n]", scale: "T[*u] = 1"}
outputs: {y: "T[m, n]"}
kernel: "y[i, j] = x[i, j] * scale[*[i]]"
examples: [{x: [2, 3], scale: [2], y: [2, 3]}]
"""
GUARDED = """
inputs: {x: "T[n]"}
outputs: {y: "T[n]"}
kernel: "y[i] = x[i - 1] if i GUARD 0 else 0"
examples: [{x: [3], y: [3]}]
"""
FILTERED = """
inputs: {x: "T[n]"}
outputs: {y: "T[n]"}
kernel: "y[i] = sum(x[i + j] for j in n if i + j BOUND n)"
examples: [{x: [3], y: [3]}]
"""
WRITTEN = """
inputs: {x: "T[n]"}
outputs: {y: "T[n]"}
kernel: |
  y[i] = 0
  y[i + SHIFT] += x[i]
examples: [{x: [3], y: [3]}]
"""
SPLIT = """
inputs: {x: "T[n]"}
params: {sizes: {kind: ints}}
outputs: {ys: "T[sizes[v]] for v in len(sizes)"}
shape: |
  assert sizes >= 0, "no negative sizes"
  assert sum(sizes) == n + MORE, "sizes sum to {n}"
kernel: "ys[v][k] = x[prefix(sizes)[v] + k]"
examples: [{x: [5], sizes: [2, 3], ys: [[2], [3]]}]
"""
GATHERED_WRONG = """
inputs: {x: "T[n]", index: "i64[m]"}
outputs: {y: "T[m]"}
kernel: |
  order[:] = argsort([index[j] for j in m])
  y[r] = x[order[r]]
examples: [{x: [3], index: [3], y: [3]}]
"""

WRONG = {
    "a flip without its - 1": (FLIP, "x[n - i]", "`n - i` is 3, but the dim is 3"),
    "a slice one too long": (SLICE, "x[start + i]", "`start + i` is "),
    "an edge pad of an empty axis": (EDGE_PAD, "x[*clamp", ", but the dim is 0"),
    "a mirror before an empty axis": (MIRROR_PAD, "x[*reflect", "`*reflect(i - begin, d)` is "),
    "a tile without its remainder": (TILE, "x[*i]", "`*i` is "),
    "a convolution rounded up": (CONVOLUTION.replace("ROUNDED", "2"), "x[p * stride", "`p * stride + q` is "),
    "a run of another rank": (UNKNOWN_RANK, "scale[*[i]]", "another number of indices"),
    "a guard one too weak": (GUARDED.replace("GUARD", ">="), "x[i - 1]", "`i - 1` is -1, but the dim is "),
    "a filter one too weak": (FILTERED.replace("BOUND", "<="), "x[i + j]", "`i + j` is "),
    "a write one too far": (WRITTEN.replace("SHIFT", "1"), "y[i + 1]", "`i + 1` is 3, but the dim is 3"),
    "parts of more than there is": (
        SPLIT.replace("MORE", "1").replace("[2, 3], ys: [[2], [3]]", "[2, 4], ys: [[2], [4]]"),
        "x[prefix",
        "`prefix(sizes)[v] + k` is ",
    ),
    "positions of another vector": (GATHERED_WRONG, "x[order[r]]", "`order[r]` is "),
}
RIGHT = {
    "flip": FLIP.replace("n - i", "n - 1 - i"),
    "slice": SLICE.replace("n + 1", "n"),
    "edge pad": EDGE_PAD.replace("begin >= 0", "begin >= 0 and all(n > 0 or b == 0 for n, b in zip(d, begin))"),
    "mirror pad": MIRROR_PAD.replace("begin >= 0", "begin >= 0 and all(n > 0 or b == 0 for n, b in zip(d, begin))"),
    "tile": TILE.replace("x[*i]", "x[*(i % d)]"),
    "convolution": CONVOLUTION.replace("ROUNDED", "1"),
    "broadcast": UNKNOWN_RANK.replace("kernel:", 'shape: assert u == [m], "scale is by row"\nkernel:'),
    "guard": GUARDED.replace("GUARD", ">"),
    "filter": FILTERED.replace("BOUND", "<"),
    "write": WRITTEN.replace("SHIFT", "0"),
    "split": SPLIT.replace(" + MORE", ""),
    "positions": GATHERED_WRONG.replace('y: "T[m]"', 'y: "i64[m]"').replace("x[order", "index[order"),
}


@pytest.mark.parametrize("name", WRONG)
def test_refuted_with_a_counterexample(name: str) -> None:
    body, wrong, words = WRONG[name]
    line = spec(body).split(wrong)[0].count("\n") + 1
    text, _ = findings_of(body)
    first = text.split("\n")[0]
    assert first.startswith(f"specs/m.yaml:{line}:"), text
    assert "is out of bounds for {" in first and words in first, text


@pytest.mark.parametrize("name", RIGHT)
def test_proved(name: str) -> None:
    text, counts = findings_of(RIGHT[name])
    assert not text
    assert set(counts) <= {How.STRUCTURAL, How.LINEAR, How.CASES}, counts


def test_the_record_and_the_page_are_current() -> None:
    """The record proves at least 95 of 100 indices that shapes decide, and the page says what the record does; test_golden compares the
    record with what the prover finds from scratch."""
    path = ROOT / "generated" / "anyshape_ops" / FILE
    analysis = all_specs()
    kept = read_record(path)
    findings = Findings()
    analysis, records = prove_indices(analysis, kept, findings, Memo())
    assert not findings.items
    assert kept == records, "run `make gen`"
    assert path.read_text() == record_text(analysis, records)
    assert (ROOT / "docs" / "index-safety.md").read_text() == page(analysis, records)
    assert sum(s.proved for s in kept.values()) >= 0.95 * sum(s.affine for s in kept.values())
    record = json.loads(path.read_text())["ops"]
    assert all(entry["total"] == entry["proved"] + len(entry["rest"]) for entry in record.values())


def test_what_is_kept_is_proved_again_only_where_it_changed() -> None:
    first = analyse({"specs/m.yaml": spec(RIGHT["flip"])}, complete=False)
    _, kept = prove_indices(first, {}, Findings(), Memo())
    moved = analyse({"specs/m.yaml": "\n\n" + spec(RIGHT["flip"])}, complete=False)
    _, again = prove_indices(moved, kept, Findings(), Memo())
    assert again["an_op"] is kept["an_op"]
    changed = analyse({"specs/m.yaml": spec(RIGHT["flip"].replace("n - 1 - i", "i"))}, complete=False)
    _, other = prove_indices(changed, kept, Findings(), Memo())
    assert other["an_op"] is not kept["an_op"]


def test_processes_beside_each_other_find_what_one_does() -> None:
    """There are more ops than are proved in one process, one of them wrong."""
    kernels = ["n - 1 - i", "i", "n - i", "bit_and(i, n)"] * 3
    ops = [spec(FLIP.replace("n - i", k)).replace("an_op", f"op_{number}") for number, k in enumerate(kernels)]
    text = "ops:\n" + "".join(op.removeprefix("ops:\n") for op in ops)
    analysis = analyse({"specs/m.yaml": text}, complete=False)
    several = []
    for processes in (1, 2):
        findings = Findings()
        marked, records = prove_indices(analysis, {}, findings, Memo(), processes)
        several.append((findings.render(), records, [a.unproved for a in marked.ops]))
    assert len(kernels) > FEW
    assert several[0] == several[1]
    assert several[0][0].count("is out of bounds") == kernels.count("n - i")


def test_what_is_not_modelled_is_unknown_and_not_proved() -> None:
    body = RIGHT["flip"].replace("n - 1 - i", "bit_and(i, n)")
    analysis = analyse({"specs/m.yaml": spec(body)}, complete=False)
    assert [v.how for v in verdicts(analysis.op("an_op"))] == [How.STRUCTURAL, How.UNKNOWN]


def test_a_read_that_is_not_proved_is_emitted_with_its_check() -> None:
    """A read that is proved is emitted without a check."""
    body = RIGHT["flip"].replace("x[n - 1 - i]", "x[bit_and(i, n)] + x[i]")
    findings = Findings()
    analysis = analyse({"specs/m.yaml": spec(body)}, complete=False)
    analysis, _ = prove_indices(analysis, {}, findings, Memo())
    assert not findings.items
    code = kernel(analysis.op("an_op")).text
    assert "checked(x)[bit_and(i, n)] + x[i]" in code


@pytest.mark.parametrize("path", sorted(ROOT.glob("tests/generator/**/all_ops.yaml")))
def test_every_construct_of_the_language_has_a_verdict(path: Path) -> None:
    """A construct that the prover does not model is unknown, never an error."""
    analysis = analyse({"specs/m.yaml": path.read_text()}, complete=False)
    findings = Findings()
    _, records = prove_indices(analysis, {}, findings, Memo())
    assert not findings.items
    assert len(records) == sum(a.kernel is not None for a in analysis.ops)
