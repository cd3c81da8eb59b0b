"""Schedules one graph as a tree of loops and phases: products, recurrences, blocks of rows, estimates of work.

`tree.py` makes the loops and chooses the variable of each that is the vector; `contraction.py` and the files beside it take what is a phase
of its own; `kernel_schedule.py` has the tuple of phases, which emission, descriptions and estimates all walk.
"""
