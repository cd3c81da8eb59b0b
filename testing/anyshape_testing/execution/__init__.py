"""Computes calls.

reference      by the Python of the spec
eager          node by node, typed anew for arrays, with branches and loops in Python
evaluation     node by node, under the types of a graph
interpreter    a call by the interpreter of its equations
native         a call by native code, compiled once for equal programs
"""
