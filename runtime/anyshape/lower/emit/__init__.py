"""The schedule tree as code, by way of the instructions of `lower/llvm`.

In: a `KernelSchedule`. Out: the functions of a kernel. `phases.py` begins. Its rooms, each of which imports only those before it:

    values      what an expression is in registers, and what is open while a loop is written (`levels.py`, `context.py`)
    loops       one loop: whole vectors, a masked rest, the innermost of them (`inner_loop.py`)
    scopes      the loops of rows
    windowed    reductions over windows
    products    matrix products, by way of `lower/gemm`
    sequences   ordered stores, recurrences, procedures

phases  the phases of a kernel, each by its form
"""
