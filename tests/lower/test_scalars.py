"""Scalars in stack slots become values where the text asks for it, and only there."""

from __future__ import annotations

import pytest

from anyshape.lower.llvm.builder import Module
from anyshape.lower.llvm.jit import _machine, _parsed
from anyshape.lower.llvm.polling import Polls
from anyshape.lower.llvm.scalars import MARK
from anyshape.lower.llvm.types import I32, I64
from anyshape.lower.target import host_target


def counting() -> str:
    """A kernel that counts in a slot, and tests and reads the same element twice, in a loop that polls."""
    module = Module(host_target())
    with module.kernel("count") as f:
        polls, slot = Polls(f), f.slot(I64)
        with f.for_range(0, f.args[4]):
            for _ in range(2):
                with f.if_(f.compare("lt", f.load(slot, I64), f.args[3])):
                    f.store(f.add(f.load(slot, I64), f.load(f.args[0], I64)), slot)
            polls.poll()
        f.ret(f.convert("trunc", f.load(slot, I64), I32))
    return module.text()


def test_slots_become_values_and_polls_stay() -> None:
    text = counting()
    assert text.startswith(MARK)
    done = str(_parsed(text, host_target()))
    assert "alloca" not in done and "phi i64" in done
    assert done.count("load atomic i64, ptr @anyshape_ticks monotonic") == 2  # where it begins, and in the loop


def test_a_text_that_does_not_ask_for_it_is_in_final_form() -> None:
    plain = str(_parsed(counting().removeprefix(MARK), host_target()))
    assert plain.count("alloca") == 2 and plain.count("load i64") > str(_parsed(counting(), host_target())).count(
        "load i64"
    )


@pytest.mark.parametrize("asks", [True, False])
def test_both_compile(asks: bool) -> None:
    text = counting()
    target = host_target()
    assert _machine(target).emit_object(_parsed(text if asks else text.removeprefix(MARK), target))
