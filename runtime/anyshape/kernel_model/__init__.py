"""What kernels of equations will be: what fusion has to know of the lowering, in a room that both import.

contractions    the one matcher of contractions, for equations and for the graph that is scheduled
costs           the one table of what operations cost, as code and as time
forms           what kind of computation equations are
rows            whether equations keep to rows, so that contractions run by blocks of them
left_operand    what contractions side by side in one kernel share
kernel_size     how much code a kernel of equations is
padding         what equations need of the padded tails of operands

Fusion asks here and decides by nothing else what shares a kernel; the lowering decides by the same matcher and table what it makes of it.
`tests/lower/test_kernel_model.py` holds the answers to what the lowering then does, for every kernel of the specs' examples.
"""
