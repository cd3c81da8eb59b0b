"""What emitted shape rules call: `Rule` (checks, conditions, partial operations), `Vec` and the total functions.

A relation is a generated function `relation(r: Rule, …operands) -> Bound`, run on integers and on dims alike. On integers it is plain
Python and raises ShapeError at the first violation; on dims it returns expressions, and `Rule.checks` holds what is left to run time.

    Vec                                 an immutable vector of Sizes, or of bools and Conds; + - * elementwise, a scalar is spread;
                                        [i] with an int, a slice or a Vec of indices; len(); iteration
    Rule(op, where="", facts=None, assume=())   one run of a rule
      r.require(cond, message)          an assert of the spec; one that is undecided becomes a Check, weakened by the path to it
      r.equal(a, b, what)               an equality of the signature; gives the better known side, and teaches facts
      r.where(c, lambda: a, lambda: b)  a branch where c is decided, else select(c, a, b), both sides run under their path condition
      r.and_(a, lambda: b)  r.or_(a, lambda: b)                    the right side under the left's condition
      r.item(v, i)  r.floordiv  r.mod  r.exact_div  r.zip  r.wrap  r.min  r.max      partial operations, each carries its check
      r.broadcast(p, q, …) -> Vec       r.broadcasts(p, to) -> bool | Cond
      r.axis(name, a, rank) -> int      r.axes(name, v, rank, distinct=True) -> Vec      normalised
      r.unbacked(name, low, high) -> Dim    a data-dependent size
      r.bind(outputs={"y": Vec}, **names) -> Bound     with every other name as an attribute
      r.checks                          Check(cond, message, op, where); a program keeps it as a `CheckRecord`
    total functions                     eq ne lt le gt ge not_ (on Vecs: holds for all)  prod sum_ count any_ all_  fill  put  range_
                                        enumerate_ sorted_ unique prefix ravel  ceil_div clamp index  keep(items, conds)
    Elements(first, any, index, count)   several tensors of which only the run knows how many: shapes of the first and of any;
                                        count_of, numbers_of, each_of, total_of, before_of are the same on them and on known tensors
    Undetermined(operand, why)          the rank of a result needs a value that is not known: inference gives an unknown rank, and the
                                        compiler cuts the program there and goes on when the value exists

A filter whose condition is undecided becomes the neutral element inside prod, sum, count, any and all; elsewhere it raises Undetermined.
`//` and `%` floor; a comparison of vectors as a condition means "for all items".
"""

from anyshape.rules.checks import Bound, Check, join
from anyshape.rules.choices import Choices, Chosen
from anyshape.rules.elements import Elements, ElementSize, before_of, count_of, each_of, numbers_of, total_of
from anyshape.rules.lists import (
    drop,
    enumerate_,
    fill,
    index,
    keep,
    place,
    prefix,
    put,
    range_,
    ravel,
    sorted_,
    unique,
    unravel,
)
from anyshape.rules.rule import Rule
from anyshape.rules.vec import (
    Truth,
    Undetermined,
    Vec,
    all_,
    among,
    any_,
    ceil_div,
    clamp,
    count,
    eq,
    ge,
    gt,
    int_,
    le,
    lt,
    ne,
    not_,
    prod,
    reflect,
    sum_,
    truth,
)

__all__ = [
    "Bound", "Check", "Choices", "Chosen", "ElementSize", "Elements", "Rule", "Truth", "Undetermined", "Vec", "all_",
    "among", "any_", "before_of", "ceil_div", "clamp", "count", "count_of", "drop", "each_of", "enumerate_", "eq",
    "fill", "ge", "gt", "index", "int_", "join", "keep", "le", "lt", "ne", "not_", "numbers_of", "place", "prefix",
    "prod", "put", "range_", "ravel", "reflect", "sorted_", "sum_", "total_of", "truth", "unique", "unravel"
]  # fmt: skip
