"""Tests of the tests: every spec is changed in one place at a time, and its own examples and laws must notice.

In: a folder of specs. Out: of every mutant what killed it, or that nothing did. `python -m anyshape_testing.mutation` is the command;
the mutants themselves come from `anyshape_gen.mutants`. This is the one room that needs the generator beside the runtime.
"""
