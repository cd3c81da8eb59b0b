"""One loop: vectors, a masked rest, ranges that are cut.

In: a loop of a schedule and what stands in it. Out: its code.

empty_loops  ranges of loops without the iterations that do nothing
nest         loops around a body: shares of parts, whole vectors and a masked rest
reduction    the arithmetic of reductions
inner_loop   one inner loop of a scope: accumulators, stores, values kept in scratch
demand       asserts on data
"""
