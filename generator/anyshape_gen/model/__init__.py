"""Typed data of specs, which every other room of the generator reads, and the walks over it. Nothing here parses, checks or writes.

In: what the parsers and resolvers build. Out: frozen dataclasses, of which each part of a spec's text has its place.

source      places in spec files, findings, and the collector that prints all findings at once
nodes       expressions and statements of the rule language
body_nodes  equations of kernels, steps of procedures and compositions
spec        an op as it is parsed: signatures, parameters, mappings, examples
analysis    an op as it is analysed: solved signature, resolved kernel or procedure
functions   the functions of the rule language: arguments, and where calls may stand
build       small expressions, with constants folded
traverse    children, walks, free names, rebuilt copies
accesses    the reads and stores of a kernel, by number
printer     nodes as text of the rule language
"""
