"""What random calls know of asserts: the values of a name, and which inputs are there together; and that most draws are then valid."""

from __future__ import annotations

import pytest

from anyshape.testing.corpus import corpus
from anyshape.testing.profile import load_profile, usual
from anyshape.testing.running import PROPERTIES, register
from anyshape_gen.emit.wants import Wants
from anyshape_gen.nodes import Assert, BinOp, BoolOp, Call, Compare, Expr, Int, Name
from anyshape_gen.traverse import free_names

N, M, K = Name("n"), Name("m"), Name("k")


def compare(a: Expr, op: str, b: Expr) -> Compare:
    return Compare(a, ((op, b),))


def wants(*conditions: Expr) -> Wants:
    return Wants([Assert(c, None) for c in conditions])


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
    assert wants(*conditions).values(M, known) == values


def test_inputs_that_are_there_together() -> None:
    def same(a: str, b: str) -> Compare:
        return compare(Call("present", (Name(a),)), "==", Call("present", (Name(b),)))

    assert wants(same("a", "b"), compare(M, "==", N), same("c", "d"), same("d", "b")).together() == [
        ("a", "b", "c", "d")
    ]
    assert wants(same("a", "b"), same("c", "d")).together() == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("op", ["qlinear_conv", "reverse_sequence", "grouped_query_attention", "matmul_nbits"])
def test_most_asserts_are_met(op: str) -> None:
    """Of these, one call in a hundred was valid while draws knew nothing of asserts."""
    register("anyshape_ops")
    load_profile(15)
    found = corpus(PROPERTIES[op], 15)
    load_profile(usual())
    assert len(found.valid) >= 15
    assert len(found.drawn) < 20 * len(found.valid)
