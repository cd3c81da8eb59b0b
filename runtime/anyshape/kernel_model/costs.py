"""What operations cost, in the one table that fusion and the lowering share.

`instructions` are how much code an operation on one vector is, about, and bound what is fused into one kernel. `cycles` are how long it
keeps a core, about, per vector; only the order of magnitude matters: they choose how many rows run at once, what is kept rather than
computed again, and how many threads a kernel is shared out to.
"""

from __future__ import annotations

from dataclasses import dataclass

from anyshape.dtypes import BF16, F16

CHEAP_CYCLES = 2


@dataclass(frozen=True, slots=True)
class Cost:
    instructions: int = 1
    cycles: int = 1
    of_sizes: bool = False
    """What sizes are computed with: it is done again whatever it takes, since tensors of sizes have few elements and a kernel less is worth
    more than cycles."""

    @property
    def is_cheap(self) -> bool:
        """Whether it is done again rather than its result loaded."""
        return self.cycles <= CHEAP_CYCLES or self.of_sizes


OPERATIONS = {
    "philox": Cost(168, 120), "pow": Cost(150, 30),
    "sin": Cost(52, 16), "cos": Cost(52, 16), "erf": Cost(40, 16), "log": Cost(38, 12), "exp": Cost(28, 10),
    "expm1": Cost(36, 12), "log1p": Cost(46, 14), "tanh": Cost(30, 14),
    "floordiv": Cost(20, 12, of_sizes=True), "mod": Cost(20, 12, of_sizes=True),
    "fmod": Cost(16, 12, of_sizes=True), "trunc_div": Cost(8, 12, of_sizes=True),
    "div": Cost(6, 3), "sqrt": Cost(2, 4),
    "shift_left": Cost(4), "shift_right": Cost(5), "min": Cost(3), "max": Cost(3), "and": Cost(2), "or": Cost(2), "not": Cost(2),
    "wrap": Cost(3), "round_bf16": Cost(9, 4), "round_f16": Cost(6, 3),
}  # fmt: skip
"""Costs of operations, by the names that equations call them; an operation that is not here costs what `Cost()` says."""
FORMS = {"sigmoid": Cost(30, 14)}
"""Costs of what the scheduled graph has for several operations of an equation."""
LOAD = Cost(2, 4)
STORE_CYCLES, MASK_CYCLES = 4, 2
"""A store; what makes a load one that reads only inside of its tensor."""
SORT_CYCLES = 12
"""An element of a row that is sorted: some 20 of rows of 80, 12 of rows of 1,000 and more (`op_audit --operator TopK`)."""
LOOKED_UP_INSTRUCTIONS = 20
"""A load at an index that is data, which is checked and finds its elements one by one."""
ROUNDING_INSTRUCTIONS = {F16: 5, BF16: 17}
"""What each operation takes beside the one that computes wider."""
_PLAIN = Cost()


def cost_of(operation: str) -> Cost:
    return OPERATIONS.get(operation) or FORMS.get(operation, _PLAIN)


CYCLES_PER_PART = 10_000
"""Cycles that a part has at least, some 2.5 us: more than fork and join cost between threads that are awake."""
