"""Tests the laws on small ops, correct ones and wrong ones: each law must notice the wrong ones it is meant for (docs/testing.md).

    forms      the small ops of `forms.yaml`, and their errors
    making     an op generated in memory from the text of its spec
    sides      contexts within which one side of a law has the wrong op
    table      the laws, and what each is meant to notice
    cells      one law on one op in one class of dtypes
    running    all cells in several processes, or a sample of them
    page       the tables of docs/testing.md

`python -m anyshape_testing.matrix` tries all cells.
"""
