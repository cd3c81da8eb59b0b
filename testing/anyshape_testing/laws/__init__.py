"""The laws: modules of functions `test_…`, which are tests of pytest for each op to which they apply. `catalogue` lists them by number.

agreement       1 to 4: reference, interpreter and kernel; relation; symbols; dyn and static
rewriting       5: rewrites keep values and types
refusals        6: one message everywhere
executors       7: the same bits from every executor
parts           7b: and from a kernel in one part and in several
moving          9: strings move as numbers do
gradients       10: gradients are limits of differences
processors      11: code for other processors calls no missing function
sequences       12: a list is its elements
long_axes       13: long axes of narrow floats
extremes        14: integers near the ends of i64
examples        the examples of specs
exported_ops    an op as a C function
custom_ops      an op as a custom op of onnxruntime
narrowing       contractions compiled for bf16 multiply what an interpreter rounds
catalogue       the numbers of laws, and to which ops each applies
"""
