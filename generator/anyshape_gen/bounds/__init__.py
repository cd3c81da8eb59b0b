"""Proves that no kernel reads or writes outside its tensors, whatever the shapes (docs/index-proofs.md).

In: an `Analysis`. Out: a verdict for every read and store, kept by op; findings with a counterexample where an index is wrong, for which
kernels run as they are emitted.

safety          the step of the generator: all ops
parallel        several ops in parallel processes
store           verdicts on disk, by op
version         the hash of the prover's code, with which they are kept
check_op        one op: its obligations, judged
obligations     conditions under which all indices are in bounds
signature       signature and rule as values and facts for all shapes
evaluate        expressions as terms
functions       functions of the language on terms
elements        elements that are indices
learn           facts that an assert implies
state           the op while its expressions are evaluated
context         symbols and facts
terms           integers, conditions and vectors of any length
axes            vectors with items set, removed or inserted at unknown positions
broadcasting    vectors broadcast
prove           a condition from facts
choices         conditions split by selects
linear          linear inequalities that contradict each other
counterexample  shapes at which an index is out of bounds
report          the page on index safety
"""
