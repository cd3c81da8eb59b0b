"""What runs one after the other: ordered stores, recurrences, procedures.

In: an ordered store, a `Recurrence` or a program. Out: its code.

sort        stable sorting of rows
updates     updates of a tensor at places that data names
ordered     equations whose elements come one after the other
recurrence  recurrences: a loop over positions
procedure   programs: one part runs them
"""
