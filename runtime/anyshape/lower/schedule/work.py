"""Estimates of a kernel's work, by which `vm/compiling/kernels.py` decides over how many threads a call is shared.

In: the schedule of a kernel. Out: rough cycles of one core, by the sizes of its loops. Only the order of magnitude matters.
"""

from __future__ import annotations

from collections.abc import Iterable

from anyshape.dims import Size
from anyshape.kernel_model.costs import STORE_CYCLES
from anyshape.lower.analyse.classify import cost_of_all
from anyshape.lower.ir.dag import DagNode, LoopVar
from anyshape.lower.ir.stores import Store, reductions_of
from anyshape.lower.llvm.target_probe import multiply_adds
from anyshape.lower.schedule.products import PhaseStep, Product
from anyshape.lower.target import Target

_OPERAND_CYCLES = 2
"""A product reads a vector of its second operand from a cache further out: 32 bytes a cycle."""


def cycles(steps: Iterable[PhaseStep], lanes: int, target: Target) -> Size:
    """Cycles of all steps that can be shared, in vectors of so many lanes, of which the target multiplies and adds one or two in a cycle. A
    step without an outer loop cannot be shared. There is one quotient, of all: dims that are sums of quotients take long to compare."""
    halves: Size = 0
    for step in steps:
        if isinstance(step, Product):
            rows = points((step.m,)) * (2 // multiply_adds(target)) + 2 * _OPERAND_CYCLES
            around = points((*step.around, *step.batch)) * _length(step, target)
            halves = halves + around * _columns(step.n.extent, lanes) * rows
        elif step.variables:
            halves = halves + _rows(step.stores) * 2
    return halves // (2 * lanes)


def cycles_of_rows(stores: tuple[Store, ...], lanes: int) -> Size:
    """Cycles of stores for all values of their variables, so many at a time."""
    return _rows(stores) // lanes


def _length(p: Product, target: Target) -> Size:
    """Steps of the sums. Of a length that only the run knows, as many as elements."""
    k = p.k.extent
    return -(-k // p.words.per(target)) if p.words is not None and isinstance(k, int) else k


def _columns(n: Size, lanes: int) -> Size:
    """How many of so many columns are computed: whole vectors. Of a size that only the run knows, the columns: it is many vectors, or
    little work."""
    return -(-n // lanes) * lanes if isinstance(n, int) else n


def _rows(stores: tuple[Store, ...]) -> Size:
    """Cycles if every element were a vector: the loop of each reduction, and that of each store."""
    total: Size = 0
    for r in reductions_of(stores):
        total = total + _loop([r.body], r.domain | frozenset(r.variables))
    for domain in dict.fromkeys(s.domain for s in stores):
        own = [s for s in stores if s.domain == domain]
        total = total + _loop([s.value for s in own], domain) + points(domain) * (STORE_CYCLES * len(own))
    return total


def _loop(values: Iterable[DagNode], domain: frozenset[LoopVar]) -> Size:
    return points(domain) * cost_of_all(values, domain)


def points(variables: Iterable[LoopVar]) -> Size:
    """How many iterations loops over all of the variables have."""
    total: Size = 1
    for v in sorted(variables, key=lambda v: v.number):
        total = total * v.extent
    return total
