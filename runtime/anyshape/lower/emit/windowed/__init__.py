"""Reductions over windows.

In: scopes whose reads overlap. Out: their code.

windows  reductions over windows, read from a copy
taps     reductions over short windows of which the lanes are no part; of bytes several taps at a time, as words
tiles    sums that are written out: all stores of a place, or all places of a tile
folded   reductions over windows of several dims, one dim after the other
"""
