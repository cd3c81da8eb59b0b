"""ONNX's standard tests, each in four forms, and the ratchet: the list of those that pass, which may only grow.

    python -m tests.frontends.onnx_suite [--only TEXT] [--form FORM] [--failures] [--update-ratchet]

Forms of a case: `given` as the suite has it; `constants` with every input dim unknown and small integer operands as constants (which
must then become static); `operands` with every input dim unknown and operands computed at run time; `rankless` with unknown ranks.
Declared output shapes are dropped in all but the first. Outcomes: pass, unsupported (an UnsupportedError), or a failure with its
message. Cases run in child processes, so that a crash is one failure and not the end.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from tests.frontends.isolated import awaited
from tests.frontends.onnx_tiers import group_of
from tests.frontends.stored_cases import stored_cases

PAGE = Path(__file__).parents[2] / "docs" / "onnx.md"
RATCHET = Path(__file__).with_name("onnx_ratchet.txt")
FORMS = ("given", "constants", "operands", "rankless")
LONGEST, LONGEST_REAL = 60.0, 600.0
"""Seconds of the processor that a case, and a whole network, may take before its process is ended: on a busy machine, or one that stops
what runs for a while, that is any time"""


@dataclass(frozen=True)
class Outcome:
    """`word` is pass, unsupported, fail or crash."""

    case: str
    form: str
    word: str
    why: str = ""

    @property
    def key(self) -> str:
        return f"{self.case}/{self.form}"


@cache
def cases() -> dict[str, Any]:
    """{name: case}, of the suite that the installed onnx generates."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {c.name: c for c in collect_testcases(None)} | stored_cases()


def in_form(case: Any, form: str) -> tuple[onnx.ModelProto, list[str]]:
    """The model, and the names of the inputs that remain, in the order of the case's data."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    held = {t.name for t in model.graph.initializer}
    names = [i.name for i in model.graph.input if i.name not in held]
    if form == "given":
        return model, names
    for info in model.graph.output:
        info.ClearField("type")
    del model.graph.value_info[:]
    constant = dict(zip(names, map(as_array, case.data_sets[0][0]))) if form == "constants" and tensors(model) else {}
    scales = fixed_floats(model)
    kept = []
    for info in list(model.graph.input):
        value = constant.get(info.name)
        if (is_operand(value) or (info.name in scales and is_small(value))) and len(case.data_sets) == 1:
            model.graph.initializer.append(onnx.numpy_helper.from_array(value, info.name))
        else:
            forget(tensor_of(info.type), form == "rankless")
            kept.append(info)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model, names


def tensors(model: onnx.ModelProto) -> bool:
    """Whether every input is a tensor."""
    return all(i.type.HasField("tensor_type") for i in model.graph.input)


def as_array(a: Any) -> Any:
    """The suite holds a few values as protobuf, and scalars as NumPy's."""
    if isinstance(a, onnx.TensorProto):
        return onnx.numpy_helper.to_array(a)
    if isinstance(a, onnx.SequenceProto):
        return onnx.numpy_helper.to_list(a)
    if isinstance(a, onnx.OptionalProto):
        return onnx.numpy_helper.to_optional(a)
    if isinstance(a, list):
        return [as_array(element) for element in a]
    return np.asarray(a) if isinstance(a, np.generic) else a


def fixed_floats(model: onnx.ModelProto) -> set[str]:
    """Inputs of operators whose declaration fixes their dtype to f32: they say scales, and are no data."""
    opset = max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=1)
    names: set[str] = set()
    for node in model.graph.node:
        if node.domain in ("", "ai.onnx") and onnx.defs.has(node.op_type, opset, node.domain):
            declared = onnx.defs.get_schema(node.op_type, opset, node.domain).inputs
            names.update(name for name, formal in zip(node.input, declared) if formal.type_str == "tensor(float)")
    return names


def is_small(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim <= 1 and value.size <= 16


def is_operand(value: Any) -> bool:
    """Whether an input looks like a shape, axes or bounds: few integers in a vector or scalar."""
    if not is_small(value):
        return False
    number = value.dtype.kind in "if" or value.dtype.name == "bfloat16"
    return value.dtype == np.int64 or (number and value.ndim == 0)


def tensor_of(type_: Any) -> Any:
    """The type of the tensors in a sequence or an optional."""
    kind = type_.WhichOneof("value")
    return (
        tensor_of(getattr(type_, kind).elem_type) if kind in ("sequence_type", "optional_type") else type_.tensor_type
    )


def forget(tensor: Any, rank: bool) -> None:
    if rank:
        tensor.ClearField("shape")
    elif tensor.HasField("shape"):
        for d in tensor.shape.dim:
            d.Clear()


def run_case(name: str, form: str) -> Outcome:
    from anyshape import onnx_backend
    from anyshape.errors import UnsupportedError

    case = cases()[name]
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            model, names = in_form(case, form)
            prepared = onnx_backend.prepare(model)
            if form == "constants":
                dynamic = prepared.executable.report.still_dynamic
                assert not dynamic, f"not static: {dynamic}"
            for data in case.data_sets:
                inputs, expected = ([as_array(a) for a in side] for side in data)
                feed = {n: a for n, a in zip(names, inputs) if n in prepared.executable.input_names}
                compare(expected, prepared.run(feed), case.rtol, case.atol)
    except UnsupportedError as e:
        return Outcome(name, form, "unsupported", str(e))
    except Exception as e:
        return Outcome(name, form, "fail", f"{type(e).__name__}: {e}")
    return Outcome(name, form, "pass")


def compare(expected: Sequence[Any], got: Sequence[Any], rtol: float, atol: float) -> None:
    assert len(expected) == len(got), f"{len(expected)} outputs wanted, got {len(got)}"
    for k, (w, g) in enumerate(zip(expected, got)):
        if w is None or isinstance(w, list):
            assert type(g) is type(w), f"output {k}: {type(w)} wanted, got {type(g)}"
            if w is not None:
                compare(w, g, rtol, atol)
            continue
        w = np.asarray(w)
        assert isinstance(g, np.ndarray), f"output {k}: an array wanted, got {type(g)}"
        assert g.dtype == w.dtype, f"output {k}: {w.dtype} wanted, got {g.dtype}"
        assert g.shape == w.shape, f"output {k}: shape {w.shape} wanted, got {g.shape}"
        if w.dtype.itemsize == 2 and (w.dtype.kind == "f" or w.dtype.name == "bfloat16"):
            rtol = max(rtol, 2.0 ** (-9 if w.dtype.kind == "f" else -6))  # two units in the last place
        if w.dtype.kind in "fiu":
            np.testing.assert_allclose(g, w, rtol, atol)
        elif w.dtype.name == "bfloat16" or w.dtype.kind == "V":
            np.testing.assert_allclose(g.astype(np.float32), w.astype(np.float32), rtol, atol)
        else:
            np.testing.assert_array_equal(g, w)


def run_isolated(keys: Sequence[tuple[str, str]]) -> Iterator[Outcome]:
    """Outcomes in order; a process that dies or hangs costs one case."""
    at = 0
    context = multiprocessing.get_context("fork")
    cases()
    while at < len(keys):
        here, there = context.Pipe(duplex=False)
        child = context.Process(target=_work, args=(there, keys[at:]), daemon=True)
        child.start()
        there.close()
        while at < len(keys):
            limit = LONGEST_REAL if keys[at][0].startswith("real:") else LONGEST
            ended = awaited(here, child, limit)
            if not ended:
                try:
                    yield here.recv()
                    at += 1
                    continue
                except EOFError:
                    ended = "died"
            child.kill()
            child.join()
            yield Outcome(*keys[at], "crash", ended if ended != "died" else f"exit code {child.exitcode}")
            at += 1
            break
        child.join()


def _work(pipe: Any, keys: Sequence[tuple[str, str]]) -> None:
    for name, form in keys:
        pipe.send(run_case(name, form))


def read_ratchet() -> list[tuple[str, str]]:
    """(case, form) of all that passed when the file was written."""
    if not RATCHET.exists():
        return []
    passed = []
    for line in RATCHET.read_text().splitlines():
        name, _, forms = line.partition(" ")
        passed += [(name, FORMS[int(k)]) for k in forms]
    return passed


def write_ratchet(passed: Sequence[tuple[str, str]]) -> None:
    """One line per case: its name and the numbers of its forms."""
    by_case: dict[str, str] = {}
    for name, form in sorted(passed, key=lambda k: (k[0], FORMS.index(k[1]))):
        by_case[name] = by_case.get(name, "") + str(FORMS.index(form))
    RATCHET.write_text("".join(f"{name} {forms}\n" for name, forms in by_case.items()))


def table() -> str:
    """A table of the ratchet: of each group of the suite, how many cases there are and how many pass in each form."""
    total, held = counted()
    lines = [f"| group | cases | {' | '.join(FORMS)} |", "|---" * (len(FORMS) + 2) + "|"]
    for g, n in [*sorted(total.items()), ("all", total.total())]:
        passed = [sum(held[name, form] for name in total if g in (name, "all")) for form in FORMS]
        lines.append(f"| {g} | {n} | {' | '.join(map(str, passed))} |")
    return "\n".join(lines)


@cache
def counted() -> tuple[Counter[str], Counter[tuple[str, str]]]:
    """{group: cases}, {(group, form): cases that pass}."""
    group = {name: group_of(name, case.model) for name, case in cases().items()}
    held = Counter((group[name], form) for name, form in read_ratchet() if name in group)
    return Counter(group.values()), held


def page() -> str:
    """docs/onnx.md with the table as it is now."""
    before, mark, after = PAGE.read_text().partition("--counts` prints it from that list:\n")
    rest = after.lstrip("\n").partition("\n\n")[2]
    return f"{before}{mark}\n{table()}\n" + (f"\n{rest}" if rest else "")


def main() -> int:
    parser = argparse.ArgumentParser("onnx_suite", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--form", action="append", choices=FORMS, help="only these forms")
    parser.add_argument("--failures", action="store_true", help="print every failure")
    parser.add_argument("--update-ratchet", action="store_true", help="write the list of what passes, and the table")
    parser.add_argument("--missing", action="store_true", help="only what is not on the list")
    parser.add_argument("--counts", action="store_true", help="print a table of the list, and run nothing")
    parser.add_argument("--update-docs", action="store_true", help="put that table into docs/onnx.md, and run nothing")
    args = parser.parse_args()
    if args.update_docs:
        PAGE.write_text(page())
        return 0
    if args.counts:
        print(table())
        return 0
    keys = [(name, form) for name in cases() if args.only in name for form in args.form or FORMS]
    start, held = time.monotonic(), set(read_ratchet())
    keys = [key for key in keys if not (args.missing and key in held)]
    counts: Counter[tuple[str, str]] = Counter()
    passed, fallen = [], []
    for k, outcome in enumerate(run_isolated(keys)):
        key = (outcome.case, outcome.form)
        counts[outcome.form, outcome.word] += 1
        if outcome.word == "pass":
            passed.append(key)
        elif key in held:
            fallen.append(outcome)
        if args.failures and outcome.word in ("fail", "crash"):
            print(f"{outcome.word} {outcome.key}: {' '.join(outcome.why.split())[:300]}")
        if k % 500 == 499:
            print(f"… {k + 1} of {len(keys)}, {time.monotonic() - start:.0f} s", flush=True)
    for form in args.form or FORMS:
        print(form, ", ".join(f"{word} {n}" for (f, word), n in sorted(counts.items()) if f == form))
    for outcome in fallen:
        print(f"no longer passes: {outcome.key}: {outcome.word} {outcome.why}")
    if args.update_ratchet:
        asked = set(keys)
        write_ratchet([*passed, *(k for k in held if k not in asked)])
        counted.cache_clear()
        PAGE.write_text(page())
    return 1 if fallen and not args.update_ratchet else 0


if __name__ == "__main__":
    raise SystemExit(main())
