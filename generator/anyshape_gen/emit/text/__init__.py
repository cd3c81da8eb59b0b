"""How text is written: modules of Python, long lines, names, and what cannot be written.

In: code, names. Out: texts of modules.

layout   long lines, broken as a formatter does
module   a Python module: header, the imports that its code uses, code
names    names of a spec as names of Python
refusal  expressions that have no meaning where they stand
"""
