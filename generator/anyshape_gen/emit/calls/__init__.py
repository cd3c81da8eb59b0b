"""Ops as the graph has them: their definitions, and calls of them.

In: an `OpAnalysis`, or all of them. Out: definitions, functions and patterns.

ops           the OpDef of every variant
api           the public functions, `ops.softmax(x, axis=-1)`
values        operators and methods of Values
compositions  bodies of composed ops
assigned      names that steps of a composition assign
rewrites      rewrites over graph nodes
"""
