"""A second solver, z3, judges what the prover of index bounds proved. It shares the terms with the prover, and none of its reasoning.

    translation     terms of `anyshape.dims` as terms of z3
    judge           whether a claim follows from its facts
    of_ops          the claims of the ops of a folder of specs
    certificates    what the certificate of an exported model claims, from its file
    of_exports      the certificates of exported ops

`python -m anyshape_testing.proofs` judges all ops.
"""
