"""Prints nodes as text of the rule language, with no more brackets than needed.

In: an expression or statement. Out: text that parses to an equal node. Pages, messages and the round-trip tests use it.
"""

from __future__ import annotations

from collections.abc import Iterator

from anyshape_gen.model.body_nodes import Branch, Break, Equation, For, Kernel, Procedure, Set, Step, Store, While
from anyshape_gen.model.nodes import (
    Along,
    Assert,
    Assign,
    AttrRead,
    BinOp,
    Bool,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Exact,
    Fit,
    Flat,
    Float,
    Function,
    Generator,
    If,
    IfExp,
    Index,
    Int,
    Item,
    Message,
    Method,
    Name,
    Node,
    NoneLit,
    Offset,
    Part,
    Placed,
    Reduction,
    Return,
    Slice,
    Star,
    Statement,
    Str,
    Target,
    TensorRead,
    Unary,
    Unbacked,
    VecLit,
)

_ATOM, _POW, _NEG, _MUL, _ADD, _COMPARE, _NOT, _AND, _OR, _IF = range(10)
_BINARY = {"**": _POW, "*": _MUL, "/": _MUL, "//": _MUL, "%": _MUL, "+": _ADD, "-": _ADD}


def to_text(node: Node) -> str:
    """Prints an expression, item or target."""
    return _text(node)[0]


def _inside(node: Node, loosest: int) -> str:
    """Prints an operand, in brackets where it binds more loosely than its place allows."""
    text, level = _text(node)
    return f"({text})" if level > loosest else text


def _text(node: Node) -> tuple[str, int]:
    match node:
        case Name(id=name):
            return name, _ATOM
        case Int(value=value):
            return str(value), _ATOM
        case Float(value=value):
            return repr(value), _ATOM
        case Str(value=value):
            return _quoted(value), _ATOM
        case Bool(value=value):
            return str(value), _ATOM
        case NoneLit():
            return "None", _ATOM
        case Unary(op="-", operand=operand):
            return f"-{_inside(operand, _NEG)}", _NEG
        case Unary(operand=operand):
            return f"not {_inside(operand, _NOT)}", _NOT
        case BinOp(op=op, left=left, right=right):
            level = _BINARY[op]
            low, high = (_ATOM, _NEG) if op == "**" else (level, level - 1)
            return f"{_inside(left, low)} {op} {_inside(right, high)}", level
        case Compare(first=first, rest=rest):
            tail = "".join(f" {op} {_inside(side, _ADD)}" for op, side in rest)
            return _inside(first, _ADD) + tail, _COMPARE
        case BoolOp(op=op, items=items):
            level = _AND if op == "and" else _OR
            return f" {op} ".join(_inside(item, level - 1) for item in items), level
        case IfExp(cond=cond, then=then, other=other):
            return f"{_inside(then, _OR)} if {_inside(cond, _OR)} else {_inside(other, _IF)}", _IF
        case AttrRead(name=name, default=default):
            return f"attr.{name}" + (f"({to_text(default)})" if default is not None else ""), _ATOM
    return _compound(node), _ATOM


def _compound(node: Node) -> str:
    match node:
        case Call(func=func, args=args, keywords=keywords):
            named = [f"{name}={to_text(value)}" for name, value in keywords]
            return f"{func}({', '.join([*(to_text(arg) for arg in args), *named])})"
        case Method(base=base, name=name, args=args):
            return f"{_inside(base, _ATOM)}.{name}({', '.join(map(to_text, args))})"
        case Index(base=base, items=items):
            return f"{_inside(base, _ATOM)}[{_items(items)}]"
        case VecLit(items=items):
            return f"[{', '.join(map(to_text, items))}]"
        case Comprehension(element=element, generators=generators, conditions=conditions):
            return f"[{to_text(element)}{_loops(generators, conditions)}]"
        case Reduction(kind=kind, element=element, generators=generators, conditions=conditions, keywords=keywords):
            body = f"{to_text(element)}{_loops(generators, conditions)}"
            if keywords:
                tail = "".join(f", {name}={to_text(value)}" for name, value in keywords)
                return f"{kind}(({body}){tail})"
            return f"{kind}({body})"
        case Star(value=value, axes=None):
            return f"*{_inside(value, _ATOM)}"
        case Star(value=value, axes=axes) if axes is not None:
            return f"*{_inside(value, _ATOM)}@{_inside(axes, _ATOM)}"
        case Slice(low=low, high=high):
            return f"{'' if low is None else to_text(low)}:{'' if high is None else to_text(high)}"
        case Target(name=name, run=run):
            return f"*{name}" if run else name
        case Store(tensor=tensor, element=element, items=items):
            first = tensor if element is None else f"{tensor}[{to_text(element)}]"
            return first if items is None else f"{first}[{_items(items)}]"
        case TensorRead(tensor=tensor, element=element, parts=parts, outside=outside):
            first = tensor if element is None else f"{tensor}[{to_text(element)}]"
            first = first if outside is None else f"pad({first}, {to_text(outside)})"
            return f"{first}[{_items(tuple(item for part in parts for item in _part_items(part)))}]"
    raise TypeError(f"{type(node).__name__} is not part of the written language")


def _part_items(part: Part) -> tuple[Item, ...]:
    """Returns the items of an index, as written, of a part of a resolved read."""
    match part:
        case Exact(items=items) | Fit(items=items) | Flat(items=items):
            return items
        case Placed(rest=rest, picked=picked, axes=axes):
            return (*rest, *(Star(item.value, axes) for item in picked if isinstance(item, Star)))
        case Offset(element=element, within=within):
            return (element, within)
        case Along():
            return (Slice(None, None),)


def _items(items: tuple[Node, ...]) -> str:
    return ", ".join(map(to_text, items)) if items else "()"


def _loops(generators: tuple[Generator, ...], conditions: tuple[Node, ...]) -> str:
    loops = "".join(f" for {', '.join(map(to_text, g.targets))} in {_inside(g.domain, _OR)}" for g in generators)
    return loops + "".join(f" if {_inside(cond, _OR)}" for cond in conditions)


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- statements ---------------------------------------------------------------------------------------------------


def statements_text(statements: tuple[Statement, ...], indent: str = "") -> str:
    """Prints a `shape:` block."""
    return "".join(_statement(statement, indent) for statement in statements)


def _statement(node: Statement, indent: str) -> str:
    match node:
        case Assign(names=names, value=value):
            return f"{indent}{', '.join(names)} = {to_text(value)}\n"
        case Unbacked(name=name, low=low, high=high):
            return f"{indent}{name} = unbacked({to_text(low)}, {to_text(high)})\n"
        case Assert(cond=cond, message=message):
            tail = f", {message_text(message)}" if message else ""
            return f"{indent}assert {to_text(cond)}{tail}\n"
        case If(cond=cond, then=then, other=other):
            head = f"{indent}if {to_text(cond)}:\n{statements_text(then, indent + '    ')}"
            return head + (f"{indent}else:\n{statements_text(other, indent + '    ')}" if other else "")
        case Return(value=value):
            return f"{indent}return {to_text(value)}\n"


def message_text(message: Message) -> str:
    """Prints the message of an assert, as it is written."""
    words = "".join(part if isinstance(part, str) else f"{{{to_text(part)}}}" for part in message.parts)
    return '"' + words + '"'


def function_text(function: Function) -> str:
    body = statements_text(function.body, "    ")
    return f"def {function.name}({', '.join(function.args)}):\n{body}    return {to_text(function.result)}\n"


def equation_text(equation: Equation) -> str:
    """Prints one equation without its static conditions."""
    left = to_text(equation.target)
    if equation.annotation is not None:
        left += f": {equation.annotation.dtype}[{_items(equation.annotation.extents)}]"
    right = to_text(equation.value)
    if equation.generators:
        right = f"({right}{_loops(equation.generators, equation.filters)})"
    if equation.op in ("max", "min"):
        return f"{left} = {equation.op}({to_text(equation.target)}, {right})"
    return f"{left} {equation.op} {right}"


def procedure_text(procedure: Procedure) -> str:
    """Prints a `procedure:` or `compose:` entry."""
    return "".join(line + "\n" for line in _steps(procedure.steps, ""))


def step_text(step: Step) -> str:
    """Prints a step on one line."""
    return " ".join(line.strip() for line in _steps((step,), ""))


def _steps(steps: tuple[Step, ...], indent: str) -> Iterator[str]:
    for step in steps:
        match step:
            case Set(targets=targets, op=op, value=value):
                yield f"{indent}{', '.join(map(to_text, targets))} {op} {to_text(value)}"
            case For(targets=targets, domain=domain, body=body):
                yield f"{indent}for {', '.join(map(to_text, targets))} in {to_text(domain)}:"
                yield from _steps(body, indent + "    ")
            case While(cond=cond, limit=limit, body=body):
                yield f"{indent}while {to_text(cond)} limit {to_text(limit)}:"
                yield from _steps(body, indent + "    ")
            case Branch(cond=cond, then=then, other=other):
                yield f"{indent}if {to_text(cond)}:"
                yield from _steps(then, indent + "    ")
                if other:
                    yield f"{indent}else:"
                    yield from _steps(other, indent + "    ")
            case Break():
                yield f"{indent}break"


def kernel_text(kernel: Kernel) -> str:
    """Prints a `kernel:` entry, every equation under its own conditions."""
    lines = [_statement(node, "").rstrip() for node in kernel.asserts]
    for equation in kernel.equations:
        tests = [f"({to_text(c)})" if len(equation.conditions) > 1 else to_text(c) for c in equation.conditions]
        lines.append((f"if {' and '.join(tests)}: " if tests else "") + equation_text(equation))
    return "\n".join(lines) + "\n"
