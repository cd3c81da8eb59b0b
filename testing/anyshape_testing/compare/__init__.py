"""Decides whether two ways of computing one call agree: in their results, or in their messages.

tolerance    by how much elements may differ, by dtype and by what equations compute
cuts         integers cast from sums of floats, which another order of the sum may change
enlarging    by how much equations enlarge the rounding of their sums
results      two lists of results; results, and the types of a rule
wording      two messages about a refusal, and everything for which a call is refused
raising      a block that has to raise
"""
