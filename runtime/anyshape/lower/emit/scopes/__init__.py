"""Rows: the loops of a scope.

In: a `Scope`. Out: its code.

choices      maps that choose once a row, or copy it
interior     rows whose inside is read as it lies
row_blocks   blocks of rows that have several loops each
lanes_first  loops of rows inside of the loop of a vector
looked_up_rows  rows of lookups that are written one after the other
rows         scopes of the schedule tree: versions, loops around steps
transposed   maps that read some operand across its rows
"""
