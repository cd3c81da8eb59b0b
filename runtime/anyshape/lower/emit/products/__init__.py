"""Matrix products, by way of `lower.gemm`.

In: a `Product` or `Blocked`. Out: its code.

constant_panels   constant operands, packed before the first call
product_operands  operands that do not lie in memory
product_epilogue  stores of what is computed of the sums in registers
product           a matrix product as a phase of a kernel
blocked           blocks of rows: steps of phases, for a block at a time
"""
