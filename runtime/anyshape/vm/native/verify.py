"""Whether a program is safe to run without looking: every number in its table refers to something.

In: a program. Out: nothing, or a VerifyError. The native loop checks none of this, so it is done once, before the first call.
"""

from __future__ import annotations

from anyshape.errors import VerifyError
from anyshape.vm.program.table import ELEMENTS, FORMATS, Op, Operand, Program

_NUMBERED: dict[Op, dict[int, str]] = {
    Op.DIM: {1: "arguments"},
    Op.ARGUMENT: {1: "arguments"},
    Op.CONSTANT: {1: "constants"},
    Op.CHECK: {1: "checks"},
    Op.REGION: {1: "regions"},
    Op.EXTEND: {1: "regions"},
    Op.STACK: {1: "regions", 3: "checks"},
    Op.SWAP: {0: "regions", 1: "regions"},
    Op.OUTPUT: {1: "results"},
    Op.INVOKE: {0: "kernels"},
    Op.SHARE: {0: "kernels"},
    Op.JUMP: {0: "words"},
    Op.UNLESS: {1: "words"},
}
"""Operands that are the number of something."""


def verify_program(program: Program, functions: int = 0) -> None:
    """`functions`: how many it may call. Raises VerifyError with the word of the instruction that is wrong."""
    listed = list(program.instructions())
    begins = {at for at, _, _ in listed}
    limits = {
        "arguments": len(program.arguments), "constants": len(program.constants), "checks": len(program.checks),
        "regions": program.regions, "results": len(program.results), "kernels": len(program.kernels),
        "words": len(program.code),
    }  # fmt: skip
    for at, op, operands in listed:
        for k, (letter, operand) in enumerate(zip(FORMATS[op], operands)):
            kind = _NUMBERED.get(op, {}).get(k)
            if letter in "ds*":
                _registers(program, at, op, operand)
            elif kind is not None:
                assert isinstance(operand, int)
                if not 0 <= operand < limits[kind] or (kind == "words" and operand not in begins):
                    raise VerifyError(
                        f"{op.name} at word {at}: there is no number {operand} among {limits[kind]} {kind}"
                    )
        if op in (Op.LOAD, Op.STORE) and operands[3] not in ELEMENTS:
            raise VerifyError(f"{op.name} at word {at}: there is no element type {operands[3]}")
        if op is Op.CALL and not functions:
            raise VerifyError(f"CALL at word {at}: there are no functions")
        if op is Op.GIVE and not 0 <= _number(operands[0]) <= program.returns - len(_several(operands[1])):
            raise VerifyError(f"GIVE at word {at}: the program gives {program.returns} words")
        if op is Op.DIM and _number(operands[2]) < 0:
            raise VerifyError(f"DIM at word {at}: there is no axis {operands[2]}")
    if not listed or listed[-1][1] not in (Op.RETURN, Op.JUMP):
        raise VerifyError("the program does not end in RETURN or JUMP")
    for record in program.checks:
        _registers(program, 0, Op.CHECK, record.registers)


def _registers(program: Program, at: int, op: Op, operand: Operand) -> None:
    for r in operand if isinstance(operand, tuple) else (operand,):
        if not 0 <= r < program.registers:
            raise VerifyError(f"{op.name} at word {at}: there is no register {r}; the program has {program.registers}")


def _several(operand: Operand) -> tuple[int, ...]:
    assert isinstance(operand, tuple)
    return operand


def _number(operand: Operand) -> int:
    assert isinstance(operand, int)
    return operand
