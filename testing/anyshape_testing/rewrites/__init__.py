"""Draws instances of the left side of a rewrite, and compares what the rewrite makes of them.

text          what a rewrite's text says of its instances: pattern, dtypes, sizes, elements
instances     random instances, on numbers and on symbols
comparison    an instance before and after the rewrite
"""
