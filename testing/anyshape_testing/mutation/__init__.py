"""Mutation testing of specs: every spec and every function of the library is changed in one place at a time, and
their own examples and laws must notice.

    library    functions of the library, and the ops that call them
    making     the OpDefs of a mutated spec, generated in memory and put in place of the op's own
    trying     one mutant, by the tests of its spec
    running    all mutants of all ops, in several processes
    results    the JSON file and the page that say what killed each mutant

In: a folder of specs. Out: for every mutant the test that killed it, if any. `python -m anyshape_testing.mutation` is the command; mutants
come from `anyshape_gen.mutants`, so that this package needs the generator besides the runtime.
"""
