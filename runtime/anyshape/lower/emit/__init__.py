"""The schedule tree as code, by way of the instructions of `lower/llvm`.

`phases.py` begins; `rows.py` has the loops of rows and `inner_loop.py` the innermost of them, which `nest.py` writes as whole vectors and a
masked rest; `value.py` has what stands in a loop. What is open while a loop is written is in `levels.py` and `context.py`.
"""
