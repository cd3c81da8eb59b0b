"""Tests random programs of several ops, branches, loops, computed parameters and data-dependent sizes by laws 3, 4, 6 and 7.

    statements    the representation: calls, branches, loops over numbered values
    drawing       draws a random program, statement by statement, and evaluates it on the way
    numbers       evaluates a program on arrays, by static variants and interpreted equations
    rounding      by how much results of different executors may differ
    symbols       builds the graph that is compiled, with dyn variants and symbolic dims
    refusals      messages that a run may give for a program that is refused
    laws          compares a compiled program with its evaluation
    tally         counts what programs contain
    seeds         draws the program of a seed
    search        tries many seeds, in several processes

`python -m anyshape_testing.programs --count 5000` runs that many and prints the tally.
"""
