"""Programs as text, one instruction per line, for dumps and golden tests."""

from __future__ import annotations

from anyshape.vm.program.table import ELEMENTS, FORMATS, Op, Operand, Program

_INFIX = {
    Op.ADD: "+", Op.SUB: "-", Op.MUL: "*", Op.FLOORDIV: "//", Op.MOD: "%", Op.EQ: "==", Op.NE: "!=", Op.LT: "<",
    Op.LE: "<=", Op.GT: ">", Op.GE: ">=", Op.AND: "and", Op.OR: "or",
}  # fmt: skip


def disassemble(program: Program) -> str:
    """Word numbers are left out unless something jumps, so that an inserted instruction does not change every line."""
    listed = list(program.instructions())
    jumps = any(op in (Op.JUMP, Op.UNLESS) for _, op, _ in listed)
    lines = [f"program {program.name}({', '.join(program.arguments)})"]
    for at, op, operands in listed:
        lines.append(f"  {f'{at:4}  ' if jumps else ''}{_spell(program, op, operands)}")
    return "\n".join(lines)


def _r(operand: Operand) -> str:
    return f"r{operand}"


def _list(operand: Operand) -> str:
    assert isinstance(operand, tuple)
    return ", ".join(map(_r, operand))


def _spell(p: Program, op: Op, o: tuple[Operand, ...]) -> str:
    if op in _INFIX:
        return f"{_r(o[0])} = {_r(o[1])} {_INFIX[op]} {_r(o[2])}"
    if op is Op.CONST:
        return f"{_r(o[0])} = {o[1]}"
    if op is Op.DIM:
        return f"{_r(o[0])} = dim {p.arguments[_n(o[1])]}[{o[2]}]"
    if op is Op.ARGUMENT:
        return f"{_r(o[0])} = argument {p.arguments[_n(o[1])]}"
    if op is Op.LOAD:
        return f"{_r(o[0])} = load {ELEMENTS[_n(o[3])][0]} {_r(o[1])}[{o[2]}]"
    if op is Op.STORE:
        return f"store {ELEMENTS[_n(o[3])][0]} {_r(o[0])}[{o[1]}] = {_r(o[2])}"
    if op is Op.CHECK:
        return f"check {_r(o[0])}  # {p.checks[_n(o[1])].equation}"
    if op is Op.OUTPUT:
        result = p.results[_n(o[1])]
        return f"{_r(o[0])} = output {result.name}: {result.dtype}[{_list(o[2])}]"
    if op is Op.INVOKE:
        return f"invoke {p.kernels[_n(o[0])].name}({_list(o[2])}; {_list(o[3])}; scratch {_r(o[1])})"
    if op is Op.SHARE:
        shared = f"{_r(o[3])} parts, {_r(o[4])} slices, scratch {_r(o[1])} + {_r(o[2])} each"
        return f"share {p.kernels[_n(o[0])].name}({_list(o[5])}; {_list(o[6])}; {shared})"
    written = FORMATS[op].startswith("d")
    parts = [str(v) if letter == "n" else _r(v) for letter, v in zip(FORMATS[op], o, strict=True)]
    text = f"{op.name.lower()} {', '.join(parts[1:] if written else parts)}".rstrip()
    return f"{parts[0]} = {text}" if written else text


def _n(operand: Operand) -> int:
    assert isinstance(operand, int)
    return operand
