"""Random programs from seeds: several ops, branches, loops, computed parameters and sizes found in data, under laws 3, 4, 6 and 7.

    statements   what a program is: calls, branches, loops over numbered values
    drawing      a random program, drawn statement by statement while it is read
    numbers      the plain reading: every statement on arrays, static variants, slow equations
    symbols      the reading that is compiled: dyn variants, dims that are symbols
    laws         what must hold of the two readings
    tally        what programs contained
    refusals     what a run may say of a program that is refused
    search       programs from many seeds, in several processes

`python -m anyshape_testing.programs --count 5000` runs that many and prints the tally.
"""
