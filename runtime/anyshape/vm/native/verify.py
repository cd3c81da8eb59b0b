"""Verifier of programs: every number in a table must refer to something that is there.

In: a program. Out: nothing, or a VerifyError. The native loop checks none of this, so a program is verified once, before its first call.
"""

from __future__ import annotations

from collections.abc import Container

from anyshape.dims import INT64_MAX, INT64_MIN
from anyshape.errors import VerifyError
from anyshape.vm.program.table import ELEMENTS, Op, Program


def verify_program(program: Program, functions: int = 0) -> None:
    """Raises VerifyError with the word of the first instruction that is wrong. `functions`: how many functions the program may call."""
    listed = list(program.instructions())
    there: dict[str, Container[int]] = {
        "argument": range(len(program.arguments)), "constant": range(len(program.constants)), "check": range(len(program.checks)),
        "region": range(program.regions), "result": range(len(program.results)), "kernel": range(len(program.kernels)),
        "register": range(program.registers), "word": {at for at, _, _ in listed}, "type": ELEMENTS, "axis": range(INT64_MAX),
        "number": range(INT64_MIN, INT64_MAX + 1),
    }  # fmt: skip
    for at, op, operands in listed:
        for p, operand in zip(op.parameters, operands):
            for n in operand if isinstance(operand, tuple) else (operand,):
                if n not in there[p.of]:
                    raise VerifyError(f"{op.name} at word {at}: there is no {p.of} {n}")
        if op is Op.CALL and not functions:
            raise VerifyError(f"CALL at word {at}: there are no functions")
        if op is Op.GIVE and not 0 <= (o := op.named(operands))["place"] <= program.returns - len(o["words"]):
            raise VerifyError(f"GIVE at word {at}: the program gives {program.returns} words")
    if not listed or listed[-1][1] not in (Op.RETURN, Op.JUMP):
        raise VerifyError("the program does not end in RETURN or JUMP")
    for k in (k for record in program.checks for k in record.registers):
        if k not in there["register"]:
            raise VerifyError(f"a check tells of register {k}, which is not there")
