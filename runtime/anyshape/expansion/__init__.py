"""Nodes as calls of other ops, by the public API of ops: `composition.expand`, `gradient.gradients`, `list_split.expand`."""
