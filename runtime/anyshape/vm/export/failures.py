"""Code that ends a call with a status: failed checks, overflows, kernels that refuse their data, with the words that Python has for them.

In: an open function at the place of a failure. Out: code that fills the status and returns its code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anyshape.dims import Cond
from anyshape.dtypes import parse_dtype
from anyshape.failure_report import FailureReport
from anyshape.lower.llvm.builder import FunctionBuilder, Module
from anyshape.lower.llvm.types import I1, I32, I64, PTR, VOID, Val, const
from anyshape.rules.checks import located
from anyshape.vm.export.registers import Registers
from anyshape.vm.export.status_code import NEEDED, NUMBER, TRUTH, Code, Messages, row, template
from anyshape.vm.program.table import CheckRecord

MOST_VALUES = 64
"""Most numbers in one message; those behind them are written as `…`."""
Pair = tuple[Val, Val]


@dataclass(eq=False)
class Failures:
    """Ends of one function, which returns the code of its status."""

    f: FunctionBuilder
    messages: Messages
    status: Val

    def __post_init__(self) -> None:
        self.values = self.f.alloca(I64, 2 * MOST_VALUES, 8)

    def end(
        self, code: Code, text: str, pairs: Sequence[Pair] = (), needed: Val | None = None, output: int = -1
    ) -> None:
        """Ends the function; `text` is a template for the pairs."""
        f = self.f
        self.messages.begin(f, self.status, code)
        if needed is not None:
            f.store(needed, self.status, NEEDED)
        if output >= 0:
            f.store(const(I32, output), self.status, 1)
        row(f, self.values, pairs)
        self.messages.say(f, self.status, text, self.values)
        f.ret(const(I32, code))

    def end_if(self, cond: Val, code: Code, text: str, pairs: Sequence[Pair] = ()) -> None:
        with self.f.if_(cond):
            self.end(code, text, pairs)

    def check(self, registers: Registers, record: CheckRecord) -> None:
        """Ends the function by the message of a check."""
        symbols = {}
        for s, k in zip(record.symbols, record.registers, strict=True):
            symbols[s] = registers.add()  # a number that was lost is spelled as 0, as Python does
            registers.write(symbols[s], registers.read(k))
        expressions = [p for p in record.parts if not isinstance(p, str)][:MOST_VALUES]
        numbers = registers.sizes(symbols, expressions)
        self.end(Code.SHAPE, check_template(record), [exact(registers.read(k), registers.lost(k)) for k in numbers])


def exact(value: Val, lost: Val | None = None) -> Pair:
    return value, const(I1, 0) if lost is None else lost


def check_template(record: CheckRecord) -> str:
    """The message of a check, with marks for its numbers."""
    text, count = "", 0
    for p in record.parts:
        if isinstance(p, str):
            text += template(p)
        else:
            count += 1
            text += "…" if count > MOST_VALUES else TRUTH if isinstance(p, Cond) else NUMBER
    return located(template(record.op), template(record.source), text) if record.op else text


def define_refusal(module: Module, messages: Messages, name: str, kernel: Any) -> None:
    """Defines the function that makes the status of a kernel that failed, from its report: `(status, scalars, result of the kernel)`."""

    def write(f: FunctionBuilder) -> None:
        status, scalars, result = f.args
        failures = Failures(f, messages, status)
        other = f.new_block()
        blocks = [(1 + k, f.new_block()) for k in range(len(kernel.errors))]
        f.switch(result, other, blocks)
        for (_, block), error in zip(blocks, kernel.errors, strict=True):
            f.start(block)
            _RefusalCode(failures, scalars, error).emit()
        f.start(other)
        number = f.convert("sext", result, I64)
        failures.end(
            Code.DEFECT, template(f"kernel {kernel.name} ended with the unknown status ") + NUMBER, [exact(number)]
        )

    module.define(name, I32, [("status", PTR), ("scalars", PTR), ("result", I32)], write, inline=False)


@dataclass(eq=False)
class _RefusalCode:
    """The code of one message of a kernel (`failure_report.refusal`)."""

    failures: Failures
    scalars: Val
    error: str

    def emit(self) -> None:
        f, messages, status = self.failures.f, self.failures.messages, self.failures.status
        words, equation, *elements = self.error.split("\1")
        pieces = words.split("\0")
        pairs = [exact(self._marked(piece)) for piece in pieces[1::2]]
        text = "".join(NUMBER if k % 2 else template(piece) for k, piece in enumerate(pieces))
        messages.begin(f, status, Code.SHAPE)
        row(f, self.failures.values, pairs)
        messages.say(f, status, text + (f" ({template(equation)}" if equation else ""), self.failures.values)
        said = f.alloca(I64, 1, 8)
        f.store(const(I64, 0), said)
        first = messages.text(": " if equation else " (")
        for described in elements:
            bit = f.binary("and", f.load(self.scalars, I64, FailureReport.ELEMENTS), 1 << int(described.split(" ")[0]))
            with f.if_(f.compare("ne", bit, 0)):
                between = f.select(f.compare("eq", f.load(said, I64), 0), first, messages.text(", "))
                f.call("status_say", VOID, [status, between, status])
                f.store(const(I64, 1), said)
                self._element(described)
        with f.if_(f.compare("ne", f.load(said, I64), 0) if not equation else const(I1, 1)):
            messages.say(f, status, ")")
        f.ret(const(I32, Code.SHAPE))

    def _marked(self, mark: str) -> Val:
        place = FailureReport.INDEX if mark == "index" else int(mark)
        return self.failures.f.load(self.scalars, I64, place)

    def _element(self, described: str) -> None:
        """Appends `x[1, 2] = 7`."""
        f, messages, status = self.failures.f, self.failures.messages, self.failures.status
        number, dtype, inner, name = described.split(" ", 3)
        at = FailureReport.element(int(number))
        place, value = f.load(self.scalars, I64, at), f.load(self.scalars, I64, at - 1)
        pairs: list[Pair] = []
        if inner != "-":
            for n in reversed(inner.split(",") if inner else []):
                size = f.load(self.scalars, I64, int(n[1:])) if n.startswith("#") else const(I64, int(n))
                size = f.smax(size, 1)
                pairs.insert(0, exact(f.binary("srem", place, size)))
                place = f.sdiv(place, size)
            pairs.insert(0, exact(place))
        subscript = f"[{', '.join(NUMBER for _ in pairs)}]" if inner != "-" else ""
        row(f, self.failures.values, pairs)
        messages.say(f, status, f"{template(name)}{subscript} = ", self.failures.values)
        messages.element(f, status, value, parse_dtype(dtype), self.failures.values)
