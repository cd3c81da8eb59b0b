"""The data of an op's property tests: random calls, references, examples.

In: an `OpAnalysis`. Out: a `Property` of it.

strategies     data of an op's property tests
cases          the function that draws random calls
case_writer    its state while it is emitted
case_text      parts of it as text
case_sizes     draws of dims and runs
case_params    draws of parameters
case_contents  ranges of the contents of inputs
constraints    asserts, solved for the names that are drawn
inlining       names and functions, inlined in asserts
"""
