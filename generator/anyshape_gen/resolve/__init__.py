"""Resolves one op: what its text leaves open is inferred, so that emitters only print.

In: a parsed `OpSpec`. Out: the parts of an `OpAnalysis` (`model.analysis`), and findings about what cannot be solved or matched.

rule_names        names of the rule in dims of inputs, replaced by what the rule computes
float_defaults    defaults of floats that are computed from sizes
solve             the steps by which the dims and parameters of a call become known
piece_layout      the place of each piece of a signature in its shape
kinds             kinds of expressions: integer, vector, tensor …
name_kinds        kinds of all names of a rule
outputs           shapes of outputs
searches          `search(…)`, as recurrences
kernel            a kernel: extents, reads, order of equations
values            right sides: every read matched to its tensor
slots             indices matched to the pieces of a tensor
variables         variables of an equation, and what they index
extents           whether a size may be below zero
numbering         variables that number tensors of a variadic
recurrences       equations that read each other at earlier positions
kernel_order      definitions before reads, updates after definitions
procedure         a procedure: dtypes, reads and stores, domains of loops
element_dtypes    dtypes of expressions of kernels and procedures
composing         expressions of compositions: which op is called, one tensor or several
shape_dependence  how much of each operand the sizes of outputs depend on
shaping           operands that decide only shapes
moving            dtypes whose elements are only moved
"""
