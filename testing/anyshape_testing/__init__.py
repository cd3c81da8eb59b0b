"""Tests every op by laws (properties) on random calls; tests the laws themselves; mutates specs; and generates random programs.

    process        how much a process tests: numbers of calls, limits of time and memory, collector, frames
    calls          what a call of an op is: operands, parameters, nodes, equations
    execution      computes a call by its reference, by the interpreter of its equations, by native code
    compare        when two results, or two messages, agree
    draw           draws random calls of an op
    running        runs a law on random calls, counts them, and describes a failure
    rewrites       random instances of rewrites
    exports        exported models, as functions of this process and as C programs
    laws           the laws
    programs       the laws of random programs of several ops
    proofs         judges the proofs of index bounds by a second solver
    mutation       tries mutants of specs
    matrix         tests the laws on small ops, correct ones and wrong ones

`quick`, `draw_report`, `law_page`, `gradient_page`, and the packages with a `__main__` are commands; `plugin` is for pytest, and
`running.rerun` for the scripts that failures print. Imports go one way, in this order (docs/architecture.md, The rooms).
"""
