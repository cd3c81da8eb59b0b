"""Kernels as index equations: the expressions, the builder that generated kernels call, and a slow interpreter.

In: ranks and dims of one call of an op. Out: a list of `Equation`s over `Tensor`s. Three readings share it: `interpret`, which is the
oracle; the same interpreter on symbolic contents, which is type inference; and the lowering to vector code. A generated builder
`kernel(eqs: Equations, b: Bound, x: Tensor, …, y: Tensor)` states equations; ranks are numbers, dims are `Size`.

    Tensor(name, dtype, shape)          x[i, *j] -> Read; an index is an Expr, an int or a Dim
    Expr                                Const, Scalar(Size), Var (a loop variable with an extent), Read, Apply(op, args),
                                        Reduce(kind, vars, body, where)
    eqs.index(name, extent)  eqs.indices(name, extents)  eqs.scratch(name, dtype, shape)
    eqs.define(read, value)             t[i, *j] = value
    fit(vars, extents)                  an implicit broadcast: trailing dims aligned, 0 where the dim is 1
    at(rest, picked, axes)              the index of a `*i, *j@axes` read
    eqs.unbacked(k, count)                  a size is what the count gives
    eqs.compact(t[i, :], extents, body, where=)  eqs.argsort(t[i, :], [n], key, descending=)
    eqs.update(t[e], op, value)         set add sub mul max min at any index, one after the other: a kernel of its own
    eqs.step(t[s + 1, i], value, along=s, backward=, cycle=)   one equation of a recurrence; a cycle is computed position by position
    eqs.demand(condition, words)        an assert that reads values
    p = eqs.procedure({size: bound})    steps in order: p.set, p.fill, p.size, p.loop, p.range, p.items, p.ordered, p.repeat, p.when, …;
                                        p.end() states one equation for all that they make
    reduce_(kind, extents, lambda *vars: body, where=None)     kinds sum prod max min any all count argmax argmin
    wrap(i, n)                          an index that may count from the end; checked at run time when i is data
    checked(x)[i]                       a read that the generator did not prove within bounds; checked at run time
"""

from anyshape.equations.builder import Compaction, Demand, Equation, Equations, RecurrenceStep, Run, Sorting, Update
from anyshape.equations.expr import Apply, Const, Expr, Read, Reduce, Scalar, Tensor, Var

__all__ = [
    "Apply", "Compaction", "Const", "Demand", "Equation", "Equations", "Expr", "Read", "RecurrenceStep", "Reduce", "Run",
    "Scalar", "Sorting", "Tensor", "Update", "Var"
]  # fmt: skip
