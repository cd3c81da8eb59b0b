"""Certificates of exported models: what they say is what the code tests, and a second solver accepts right ones and refuses wrong ones."""

from __future__ import annotations

import copy
import hashlib
import itertools
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

import anyshape
from anyshape import ops
from anyshape.cli.show import variant
from anyshape.dims import evaluate, fresh, parse_cond, symbol
from anyshape.equations.expr import Var, apply
from anyshape.errors import AnyshapeError
from anyshape.graph.function import Function
from anyshape.precision import CHUNKED, NARROW, Narrow, Precision
from anyshape.vm.compiling.options import make_options
from anyshape.vm.export import Request, certificate_of, export_ranks, export_target
from anyshape.vm.export.access_terms import AccessTerms
from anyshape.vm.export.accesses import By
from anyshape.vm.export.certificate import Established, totals
from anyshape.vm.export.certificate_text import certificate_json
from anyshape.vm.export.op_function import of_op, of_rank
from anyshape_testing.calls.packages import register
from anyshape_testing.exports.loaded import Exported
from anyshape_testing.laws.exported_ops import RUNS_HERE, is_sampled
from tests.export.test_c_programs import branches, loop
from tests.export.test_hostile_calls import picked
from tests.export.test_values import OPTIONS, exported, rows

pytestmark = pytest.mark.skipif(not RUNS_HERE, reason="there is no target for processors like this one")
Data = dict[str, Any]


def products() -> Function:
    """Sizes that must be equal, an index that is data, and a concatenation."""
    x, w, i = anyshape.input("x", "f32[n, m]"), anyshape.input("w", "f32[k, 5]"), anyshape.input("i", "i64[j]")
    results = {"y": ops.gather(ops.matmul(x, w), i), "z": ops.concat([x, ops.exp(x)], axis=1)}
    return anyshape.function([x, w, i], results)


def windows() -> Function:
    """Indices with strides and pads, and ones that are divided."""
    x, w = anyshape.input("x", "f32[n, 4, h, v]"), anyshape.input("w", "f32[8, 4, 3, 3]")
    return anyshape.function([x, w], ops.depth_to_space(ops.conv(x, w, strides=[2, 1], pads=[1, 0, 1, 0]), 2))


def walks() -> Function:
    """A recurrence of which only the last position is read: the read of it is a step of the recurrence."""
    types = {"x": "f32[n, f]", "link": "i32[m, 2]", "bound": "f32[m, 2]", "first": "i64[t]", "value": "f32[m, c]"}
    inputs = [anyshape.input(name, t) for name, t in {**types, "level": "i64[d]"}.items()]
    return anyshape.function(inputs, ops.tree_sums(*inputs))


@cache
def text_of(make: Callable[[], Function]) -> str:
    return exported(make()).files()["model.certificate.json"].decode()


@cache
def text_in(precision: Precision, make: Callable[[], Function], target: str | None = None) -> str:
    options = make_options({"precision": precision})
    return certificate_json([certificate_of(make(), "model", export_target(target), options)], "")


def judged(certificate: Data) -> Any:
    pytest.importorskip("z3")
    from anyshape_testing.proofs.certificates import judge_certificate

    return judge_certificate(json.dumps(certificate))


def kernels(certificate: Data) -> list[Data]:
    return [k for m in certificate["models"] for p in m["programs"] for k in p["kernels"]]


@pytest.mark.parametrize("make", [products, windows, rows, picked, loop, branches])
def test_a_second_solver_accepts_what_certificates_say(make: Callable[[], Function]) -> None:
    judgement = judged(json.loads(text_of(make)))
    assert judgement.holds and not judgement.notes, judgement.notes
    assert sum(judgement.bounds.values()) > 8


@pytest.mark.parametrize(("precision", "target"), [*((p, None) for p in NARROW), (CHUNKED, "sapphirerapids")])
@pytest.mark.parametrize("make", [products, windows])
def test_a_second_solver_accepts_the_certificate_of_each_precision(
    make: Callable[[], Function], precision: Narrow, target: str | None
) -> None:
    """What is rounded are values: a kernel reads and writes the same elements in every precision, beside memory of its own."""
    certificate = json.loads(text_in(precision, make, target))
    judgement = judged(certificate)
    assert judgement.holds and not judgement.notes, judgement.notes
    assert sum(judgement.bounds.values()) > 8
    exact = json.loads(text_in("exact", make, target))
    assert all(
        {**k, "sizes": {}} == {**e, "sizes": {}} for k, e in zip(kernels(certificate), kernels(exact), strict=True)
    )


def test_a_position_of_a_recurrence_is_the_variable_of_a_loop() -> None:
    certificate = json.loads(text_of(walks))
    assert judged(certificate).holds
    reads = [a for k in kernels(certificate) for a in k["accesses"] if a["tensor"] == "next" and a["kind"] == "read"]
    last = next(a for a in reads if all(axis["by"] == "loop" for axis in a["axes"]))
    last["loops"] = last["loops"][:2]
    assert not judged(certificate).holds


@pytest.mark.parametrize("op", [n for n in register("anyshape_ops") if is_sampled(n)])
def test_a_second_solver_accepts_the_certificates_of_a_sample_of_ops(op: str) -> None:
    """`python -m anyshape_testing.proofs` judges those of all ops, in `make test-long`."""
    pytest.importorskip("z3")
    from anyshape_testing.proofs.of_exports import judge_exported

    assert judge_exported(op).holds


def without_condition(c: Data) -> None:
    for program in c["models"][0]["programs"]:
        (equal,) = [k for k in program["conditions"] if k["holds"] == "k == m"]
        for kernel in program["kernels"]:
            kernel["conditions"] = [k for k in kernel["conditions"] if k != equal["number"]]


def axis_of(c: Data, index: str) -> Data:
    return next(x for k in kernels(c) for a in k["accesses"] for x in a["axes"] if x["index"] == index)


def one_further(c: Data) -> None:
    axis_of(c, "i3 + m")["index"] = "i3 + m + 1"


def before_the_first(c: Data) -> None:
    axis_of(c, "i3 + m")["index"] = "i3 - 1"


def smaller_dim(c: Data) -> None:
    axis_of(c, "i3 + m")["below"] = "2*m - 1"


def longer_loop(c: Data) -> None:
    (concat,) = [k for k in c["models"][0]["programs"][0]["kernels"] if k["kernel"] == "concat"]
    concat["variables"]["i3"] = "m + 1"


def compared_with_another_dim(c: Data) -> None:
    (gather,) = [k for k in c["models"][0]["programs"][0]["kernels"] if k["kernel"] == "gather"]
    gather["tested"] = dict.fromkeys(gather["tested"], "n + 1")


@pytest.mark.parametrize(
    "wrong", [without_condition, one_further, before_the_first, smaller_dim, longer_loop, compared_with_another_dim]
)
def test_a_wrong_certificate_is_refused(wrong: Callable[[Data], None]) -> None:
    certificate: Data = json.loads(text_of(products))
    assert judged(copy.deepcopy(certificate)).holds
    wrong(certificate)
    judgement = judged(certificate)
    refused = [n for n in judgement.notes if n.endswith(": false") or "depends on numbers" in n]
    assert refused and (not judgement.holds or wrong is compared_with_another_dim), judgement


def one_kernel(index: str, operands: list[str], dims: list[str], below: str = "n", itemsize: int = 1) -> Data:
    """A certificate of one read at an index that `i` and `j`, both below n, are computed to."""
    axis = {"index": index, "below": below, "by": "shape rule", "operands": operands}
    access = {"tensor": "x", "kind": "read", "loops": ["i", "j"], "axes": [axis]}
    kernel = {
        "kernel": "k", "nodes": [], "conditions": [], "variables": {"i": "n", "j": "n"}, "tested": {}, "accesses": [access],
        "buffers": [{"name": "x", "dtype": "", "itemsize": itemsize, "dims": dims, "bytes": "entry check"}],
        "sizes": {"established": "entry check", "fit 64 bits": ["n"]},
    }  # fmt: skip
    program = {"program": "all sizes", "numbers": {}, "conditions": [], "kernels": [kernel]}
    return {"anyshape certificate": 1, "models": [{"name": "m", "dims": {"n": {"low": 0}}, "programs": [program]}]}


@pytest.mark.parametrize(("kernel", "holds", "clamped"), [
    (one_kernel("i*j // n", ["i*j"], ["n", "n"]), True, 0),
    (one_kernel("i*j % n", ["i*j"], ["n"]), True, 1),
    (one_kernel("min(i*j, n - 1)", ["i*j"], ["n"]), False, 0),  # a product that overflowed may be negative
    (one_kernel("(i + j) // 2", ["i + j"], ["n"]), False, 0),
    (one_kernel("(i + j) // 2", ["i + j"], ["n"], itemsize=2), True, 0),
    (one_kernel("i", ["4*i"], ["n"]), False, 0),  # 4*i // 4
    (one_kernel("i", ["4*i"], ["n"], itemsize=8), True, 0),
    (one_kernel("i*j", [], ["n", "n"], below="n*n"), True, 0),
])  # fmt: skip
def test_operands_of_divisions_must_fit_64_bits(kernel: Data, holds: bool, clamped: int) -> None:
    judgement = judged(kernel)
    assert sum(judgement.bounds.values()) == judgement.bounds["true"] == 2, judgement
    assert (judgement.holds, judgement.clamped) == (holds, clamped), judgement


def test_operands_are_listed_as_the_kernel_computes_them() -> None:
    """An index in which a factor and a divisor cancel, of a variable of a loop."""
    v, n = Var("i", symbol("n")), symbol("n")
    terms = AccessTerms({n: n}, lambda low, high: fresh("d", low or 0, high))
    i = terms.variable(v)
    quotient = apply("floordiv", apply("mul", v, 4), 4)
    assert terms.index(quotient) is i and terms.operands(quotient) == [4 * i]
    remainder = apply("mod", apply("add", quotient, apply("mul", v, v)), 7)
    assert terms.operands(remainder) == [i + i * i, 4 * i]
    assert terms.operands(apply("add", apply("mul", v, 4), 7)) == []
    assert terms.operands(apply("select", apply("lt", apply("mul", v, v), 7), v, 0)) == [i * i]
    assert terms.operands(apply("within", apply("mod", apply("mul", v, v), 7), 9)) == []


def test_a_text_of_another_format_is_refused() -> None:
    pytest.importorskip("z3")
    from anyshape_testing.proofs.certificates import judge_certificate

    with pytest.raises(ValueError, match="no certificate"):
        judge_certificate('{"anyshape certificate": 2}')


def test_entry_checks_of_the_certificate_are_those_of_the_code() -> None:
    """Compares at all sizes: `NAME_check` refuses a call exactly where a condition that is no choice of a program does not hold."""
    c = Exported(exported(products()))
    certificate: Data = json.loads(text_of(products))
    names = [d.c_name for d in c.interface.dims]
    scope = {name: symbol(name, 0) for name in names}
    (_, general) = certificate["models"][0]["programs"]
    conditions = [parse_cond(k["holds"], scope) for k in general["conditions"] if k["established"] == Established.ENTRY]
    answers = set()
    for sizes in itertools.product(range(4), repeat=len(names)):
        held = all(evaluate(k, {scope[n]: size for n, size in zip(names, sizes)}) for k in conditions)
        answers.add(held)
        assert held == is_accepted(c, sizes), sizes
    assert answers == {True, False}


def is_accepted(c: Exported, sizes: tuple[int, ...]) -> bool:
    try:
        c.check(sizes)
    except AnyshapeError:
        return False
    return True


def test_what_keeps_an_index_in_bounds_is_said_of_each() -> None:
    certificate: Data = json.loads(text_of(products))
    by = {
        (k["kernel"], a["kind"], a["tensor"]): [x["by"] for x in a["axes"]]
        for k in kernels(certificate)
        for a in k["accesses"]
    }
    assert by["matmul", "read", "b"] == ["shape rule", "loop"]
    assert by["gather", "read", "y"] == ["run-time test", "loop"]
    counts = totals(certificate_of(windows(), "m", export_target(None), OPTIONS))
    assert counts[By.PAD] and counts[By.RULE] and counts[By.LOOP], counts


def test_sizes_that_a_run_tells_are_established_by_it() -> None:
    certificate: Data = json.loads(text_of(picked))
    where = {(k["kernel"], b["name"]): b["bytes"] for k in kernels(certificate) for b in k["buffers"]}
    assert where["nonzero", "y"] == "run-time test" and where["nonzero", "x"] == "entry check"
    assert where["gather", "y"] == "entry check"


def test_files_name_the_object_and_are_the_same_each_time() -> None:
    one, other = (exported(products()).files() for _ in range(2))
    digest = hashlib.sha256(one["model.o"]).hexdigest()
    for name in ("model.certificate.json", "model.certificate.txt"):
        assert digest in one[name].decode() and one[name] == other[name], name
    text, data = one["model.certificate.txt"].decode(), json.loads(one["model.certificate.json"])
    assert data["object sha256"] == digest
    for kernel in kernels(data):
        assert f"Kernel {kernel['kernel']}, of " in text
    assert "condition 4, entry check: matmul: k == m" in text and "0 <= i2 < m" in text


def test_every_rank_of_an_op_has_a_certificate() -> None:
    types: Mapping[str, str] = {"a": "f32[...]", "b": "f32[...]"}
    functions = {r: of_op(variant("add"), of_rank(types, r), {}) for r in range(3)}
    files = export_ranks(functions, "sum", Request(export_target(None), OPTIONS), 0).files()
    certificate = json.loads(files["sum.certificate.json"])
    assert [m["name"] for m in certificate["models"]] == ["sum_rank0", "sum_rank1", "sum_rank2"]
    assert judged(certificate).holds
