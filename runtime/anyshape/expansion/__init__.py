"""Nodes as calls of other ops: bodies of composed ops, gradients, and lists of pieces. Knows the ops, as users do."""
