"""Parses spec files: text in YAML, and the small languages inside it, to the model.

In: the texts of spec files, by path. Out: `OpSpec`s (`model.spec`) with the place of every part, and findings of what is not in the
language. What names and shapes mean is checked later.

yaml_source  YAML as a tree, with the place of every character
text         texts with the place of each character, which all parsers take
python_text  Python's syntax, with limits against hostile input
keys         the table of all keys of spec files
node_reader  mappings, lists and texts of the tree, or a finding
versions     versions of the language, and files of older ones
load         a file: its keys, families, and the parser of every text
library      the functions of `library:` blocks of all files
layout       `layout:`, the axes of a family's tensors in another order
signature    `T[*o, n@axis, *i]`, and kinds of parameters
rules        expressions, `shape:` and `define:`
kernel       `kernel:`, `procedure:` and `compose:`
values       dtype rules, views, references, examples, defaults
entries      operands, parameters, traits, matrices, algorithms
rewrites     `pattern >> term if condition`
onnx         mappings of ONNX and ATen
spellings    `python:`, how a Value calls the op
"""
