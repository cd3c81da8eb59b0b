"""Mutation testing of specs: every spec is changed in one place at a time, and its own examples and laws must notice.

In: a folder of specs. Out: for every mutant the test that killed it, if any. `python -m anyshape_testing.mutation` is the command; mutants
come from `anyshape_gen.mutants`, so that this package needs the generator besides the runtime.
"""
