"""What random calls know of asserts: the values of a name, and which inputs are there together; and that most draws are then valid."""

from __future__ import annotations

import pytest

from anyshape_gen.analysis import analyse
from anyshape_gen.emit.draws.cases import case
from anyshape_gen.emit.draws.constraints import ANY, Between, Constraints, unconditional
from anyshape_gen.model.nodes import (
    Assert,
    Assign,
    BinOp,
    BoolOp,
    Call,
    Compare,
    Expr,
    Function,
    Generator,
    If,
    IfExp,
    Index,
    Int,
    Name,
    Reduction,
    Target,
    VecLit,
)
from anyshape_gen.model.traverse import free_names
from anyshape_testing.calls.packages import PROPERTIES, register
from anyshape_testing.draw.corpus import corpus
from anyshape_testing.process.profile import load_profile, usual

N, M, K = Name("n"), Name("m"), Name("k")


def compare(a: Expr, op: str, b: Expr) -> Compare:
    return Compare(a, ((op, b),))


def constraints(*conditions: Expr) -> Constraints:
    return Constraints([Assert(c, None) for c in conditions])


def known(e: Expr) -> bool:
    return free_names(e) <= {"n"}


@pytest.mark.parametrize(
    "conditions, values",
    [
        ((compare(M, "==", N),), (N,)),
        ((compare(N, "==", M),), (N,)),
        ((compare(M, "==", K),), ()),  # not drawn yet
        ((BoolOp("or", (compare(M, "==", Int(2)), compare(M, "==", Int(4)))),), (Int(2), Int(4))),
        ((BoolOp("or", (compare(M, "==", N), compare(K, "==", N))),), (N, None)),
        ((BoolOp("and", (compare(K, ">", Int(0)), compare(M, "==", N))),), (N,)),
        ((Compare(Int(1), (("<=", M), ("<", Int(4)))),), (Int(1), Int(2), Int(3))),
        ((compare(Int(0), "<", M), compare(M, "<=", Int(100))), ()),  # too many to name
        ((compare(M, ">=", Int(3)),), tuple(Int(v) for v in range(3, 8))),
        ((compare(N, "<=", M),), (N, *(BinOp("+", N, Int(k)) for k in range(1, 5)))),
        ((compare(M, "==", BinOp("//", N, Int(0))),), ()),  # may have no value
        # nothing is left between them: from the lower bound on
        ((compare(M, ">=", Int(3)), compare(M, "<=", Int(2))), tuple(Int(v) for v in range(3, 8))),
    ],
    ids=str,
)
def test_values(conditions: tuple[Expr, ...], values: tuple[Expr | None, ...]) -> None:
    assert constraints(*conditions).values(M, known) == values


def test_an_equality_is_solved_for_the_name() -> None:
    product = BinOp("*", M, Int(2))
    assert constraints(compare(BinOp("+", M, Int(1)), "==", N)).values(M, known) == (BinOp("-", N, Int(1)),)
    assert constraints(compare(N, "==", product)).values(M, known) == (BinOp("//", N, Int(2)),)
    assert constraints(compare(BinOp("*", M, M), "==", N)).values(M, known) == ()  # no equation of one place
    assert (
        constraints(compare(BinOp("*", M, BinOp("-", N, Int(1))), "==", Int(4))).values(M, known) == ()
    )  # perhaps a factor 0


def test_an_equality_under_a_condition_leaves_the_rest_open() -> None:
    side = IfExp(N, M, K)
    assert constraints(compare(side, "==", N)).values(M, known) == (IfExp(N, N, ANY),)
    assert constraints(compare(side, "==", N)).values(K, known) == (IfExp(N, ANY, N),)
    assert unconditional(IfExp(N, ANY, Int(3))) == Int(3) and unconditional(N) == N


def test_names_are_seen_through() -> None:
    rule = (
        Assign(("room",), BinOp("-", N, Int(1))),
        Assign(("a", "b"), VecLit((N, Int(7)))),
        Assert(compare(M, "==", Name("room")), None),
    )
    assert Constraints(rule).values(M, known) == (BinOp("-", N, Int(1)),)
    assert Constraints((*rule[:2], Assert(compare(M, "==", Name("b")), None))).values(M, known) == (Int(7),)
    double = Function("double", ("v",), (), BinOp("*", Name("v"), Int(2)))
    called = Assert(compare(M, "==", Call("double", (N,))), None)
    assert Constraints([called], functions=[double]).values(M, known) == (BinOp("*", N, Int(2)),)
    assert Constraints([called]).values(M, known) == ()


def test_a_name_of_a_branch_is_not_known_behind_it() -> None:
    rule = (If(N, (Assign(("a",), N),), ()), Assert(compare(M, "==", Name("a")), None))
    assert Constraints(rule).values(M, known) == ()


def test_asserts_of_a_branch() -> None:
    pair, rank = VecLit((N, Int(1))), compare(Call("len", (M,)), "==", Int(2))
    assert Constraints([If(rank, (Assert(compare(M, "==", pair), None),), ())]).equal(M, known) == (pair,)
    assert Constraints([If(N, (Assert(compare(M, "==", Int(3)), None),), ())]).equal(M, known) == (
        IfExp(N, Int(3), ANY),
    )
    assert (
        Constraints([If(K, (Assert(compare(M, "==", Int(3)), None),), ())]).equal(M, known) == ()
    )  # nothing known decides it


def test_bounds() -> None:
    assert constraints(compare(M, "<", N), compare(Int(0), "<=", M)).bounds(M, known) == Between(
        Int(0), BinOp("-", N, Int(1))
    )
    assert constraints(compare(BinOp("*", Int(2), M), "<=", N)).bounds(M, known) == Between(
        None, BinOp("//", N, Int(2))
    )
    assert constraints(compare(M, "<", K)).bounds(M, known) is None
    items = Reduction("all", compare(Index(M, (K,)), "<=", Index(N, (K,))), (Generator((Target("k"),), Int(3)),))
    assert constraints(items).bounds(M, known) == Between(None, N)


def test_divisors_and_multiples() -> None:
    assert constraints(compare(BinOp("%", N, M), "==", Int(0))).divides("m", known) == N
    assert constraints(compare(BinOp("%", M, N), "==", Int(0))).multiple("m", known) == N
    assert Constraints([], [Call("exact_div", (M, N))]).multiple("m", known) == N
    assert constraints(compare(BinOp("%", N, M), "==", Int(1))).divides("m", known) is None


def test_items() -> None:
    assert constraints(compare(Index(M, (Int(0),)), "==", N)).items("m", known) == [(0, N)]
    each = Reduction(
        "all", BoolOp("or", (compare(K, "==", N), compare(K, "==", Int(1)))), (Generator((Target("k"),), M),)
    )
    assert constraints(each).each("m", known) == (N, Int(1))
    assert constraints(each).each("n", known) == ()
    a, b = Name("a"), Name("b")
    zipped = Call("zip", (N, M))
    open_ = Reduction(
        "all",
        BoolOp("or", (compare(b, "==", Int(0)), compare(a, "==", b))),
        (Generator((Target("a"), Target("b")), zipped),),
    )
    assert constraints(open_).like("m", known) == (N, (Int(0),))
    assert constraints(open_).like("k", known) is None


def test_what_broadcasts_to_a_name() -> None:
    assert constraints(Call("broadcasts", (N, M))).broadcast_of("m", known) == N
    assert constraints(Call("broadcasts", (K, M))).broadcast_of("m", known) is None


def test_inputs_that_are_there_together() -> None:
    def same(a: str, b: str) -> Compare:
        return compare(Call("present", (Name(a),)), "==", Call("present", (Name(b),)))

    assert constraints(same("a", "b"), compare(M, "==", N), same("c", "d"), same("d", "b")).together() == [
        ("a", "b", "c", "d")
    ]
    assert constraints(same("a", "b"), same("c", "d")).together() == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("op", ["qlinear_conv", "reverse_sequence", "grouped_query_attention", "matmul_nbits"])
def test_most_asserts_are_met(op: str) -> None:
    """One call in a hundred of these ops was valid while draws knew nothing of asserts."""
    register("anyshape_ops")
    load_profile(15)
    calls = corpus(PROPERTIES[op], 15)
    load_profile(usual())
    assert len(calls.valid) >= 15
    assert len(calls.drawn) < 20 * len(calls.valid)


@pytest.mark.parametrize("op", ["overlap_add", "phase_sums"])
def test_runs_are_as_long_as_a_param_that_gives_their_length(op: str) -> None:
    """One call in seven was valid while runs were drawn before the param."""
    register("anyshape_ops")
    load_profile(15)
    calls = corpus(PROPERTIES[op], 15)
    load_profile(usual())
    assert len(calls.drawn) < 4 * len(calls.valid)


SORTED_PARTS = """
ops:
  parts:
    summary: The sums of the parts of a vector that begin at some offsets.
    inputs:  {x: "F[n]", offsets: "i64[l]", group: "i64[m]", shares: "F[m]"}
    outputs: {y: "F[m]"}
    shape: |
      assert l == m + 1, "{l} offsets of {m} parts"
      assert all(offsets[k] <= offsets[k + 1] for k in m), "offsets fall"
      assert offsets[0] == 0 and offsets[l - 1] == n, "offsets end elsewhere"
      assert all(0 <= group[k] < 3 for k in m), "no such group"
      assert all(shares[k] >= shares[k + 1] for k in m - 1), "shares rise"
    kernel: "y[b] = sum(x[k] for k in range(offsets[b], offsets[b + 1])) * shares[b] * F(group[b])"
    reference: np.add.reduceat(x, offsets[:-1]) * shares * group
    examples:
      - {x: [2], offsets: {value: [0, 2]}, group: {value: [1]}, shares: [1], y: [1]}
      - {x: [2], offsets: {value: [0]}, group: {value: [1]}, shares: [1], error: offsets of}
      - {x: [2], offsets: {value: [2, 0]}, group: {value: [1]}, shares: [1], error: offsets fall}
      - {x: [2], offsets: {value: [1, 2]}, group: {value: [1]}, shares: [1], error: end elsewhere}
      - {x: [2], offsets: {value: [0, 2]}, group: {value: [3]}, shares: [1], error: no such group}
      - {x: [2], offsets: {value: [0, 1, 2]}, group: {value: [1, 1]}, shares: {value: [1, 2]}, error: shares rise}
"""


def test_contents_that_asserts_ask_for() -> None:
    (a,) = analyse({"specs/parts.yaml": SORTED_PARTS}).ops
    text = case(a)
    assert 'ranges={"group": (0, 3)}' in text
    assert 'rising={"offsets"}' in text and "shares" not in text.partition("rising=")[2]
    assert 'ends={"offsets": (0, n)}' in text
