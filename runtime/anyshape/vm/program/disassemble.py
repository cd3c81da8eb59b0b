"""Programs as text, one instruction per line, for dumps and golden tests."""

from __future__ import annotations

from typing import Any

from anyshape.vm.program.table import ELEMENTS, InstructionOperand, Mode, Parameter, Program


def disassemble(program: Program) -> str:
    """Spells a program. Numbers of words are left out unless there is a jump, so that one more instruction does not change every line."""
    listed = list(program.instructions())
    jumps = any(p.of == "word" for _, op, _ in listed for p in op.parameters)
    lines = [f"program {program.name}({', '.join(program.arguments)})"]
    for at, op, operands in listed:
        shown = {p.name: _shown(program, p, o) for p, o in zip(op.parameters, operands)}
        lines.append(f"  {f'{at:4}  ' if jumps else ''}{op.text.format(**shown)}")
    return "\n".join(lines)


def _shown(program: Program, parameter: Parameter, operand: InstructionOperand) -> Any:
    """Value of an operand in the text of an instruction: a register as `r3`, or the thing that the number is of."""
    if isinstance(operand, tuple):
        return ", ".join(f"r{k}" for k in operand)
    if parameter.mode is not Mode.NUMBER:
        return f"r{operand}"
    p = program
    tables: dict[str, Any] = {
        "argument": p.arguments, "check": p.checks, "result": p.results, "kernel": p.kernels, "type": ELEMENTS
    }  # fmt: skip
    return tables[parameter.of][operand] if parameter.of in tables else operand
