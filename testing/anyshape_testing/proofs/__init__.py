"""A second solver, z3, judges what the prover of index bounds proved. It shares the terms with the prover, and none of its reasoning.

translation    terms of `anyshape.dims` as terms of z3
judge          whether a claim follows from its facts
of_ops         the claims of the ops of a folder of specs; `python -m anyshape_testing.proofs` judges all of them
"""
