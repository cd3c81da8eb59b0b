"""Represents calls of ops: arrays and parameters, and the nodes and equations that are made of them. Nothing here is random but contents,
which depend on a seed and a style.

    packages    the ops under test: properties by name
    dtypes      dtypes that an op's variables and operands may have
    contents    arrays of a shape, a dtype, a seed and a style
    call        a call, and the recipe that it is built from
    operands    values for a call's operands: on numbers, on symbols, by name
    nodes       a call as a graph node, static or dyn, and its equations
    examples    the calls of a spec's examples
"""
