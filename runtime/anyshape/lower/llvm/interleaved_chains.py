"""Interleaved chains of instructions: an instruction of each in turn, so that no chain waits for its own results alone.

In: functions that emit a chain each into the current block. Out: their results, and the lines of the block in the order of the program that
a processor runs, whose window of waiting instructions holds a few vectors of a long chain.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence

from anyshape.lower.llvm.instructions import InstructionBuilder
from anyshape.lower.llvm.types import Val

LONG, LONGEST = 12, 96
"""Instructions of a chain that is interleaved with others: a shorter one overlaps with the next ones as it is, and a longer one has
several chains of its own, whose values would take all registers."""
_NAME = re.compile(r"%v\d+")
_STAYS = re.compile(r"(?!%v\d+ = )|.* = (?:atomicrmw|cmpxchg|load atomic|call (?!.*@llvm\.))")
"""Lines whose place among those of other chains means something: of stores, of what changes memory, of calls of functions"""


def interleave_chains(f: InstructionBuilder, chains: Sequence[Callable[[], Val]]) -> list[Val]:
    """Emits chains, interleaved unless they are short, very long, branch or change memory."""
    block, results, pieces = f.block, list[Val](), list[list[str]]()
    first = len(block.lines)
    for chain in chains:
        begin = len(block.lines)
        results.append(chain())
        if f.block is not block:
            return results + [c() for c in chains[len(results) :]]
        pieces.append(block.lines[begin:])
    stays = any(_STAYS.match(line) for piece in pieces for line in piece)
    if not stays and LONG <= max(map(len, pieces), default=0) <= LONGEST:
        block.lines[first:] = interleaved_lines(pieces)
    return results


def interleaved_lines(pieces: Sequence[Sequence[str]]) -> list[str]:
    """One line of each piece after the other, all of which define a name; a line that reads what another piece is still to define waits."""
    waiting = [deque((line, _NAME.findall(line)) for line in piece) for piece in pieces]
    undefined = {names[0] for lines in waiting for _, names in lines}
    order = list[str]()
    while any(waiting):
        for lines in waiting:
            if lines and undefined.isdisjoint(lines[0][1][1:]):
                line, names = lines.popleft()
                order.append(line)
                undefined.remove(names[0])
    return order
