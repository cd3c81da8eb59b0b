"""Values: what an expression is in registers, and what is open while code is written.

In: nodes of the graph of a kernel. Out: values of `llvm`.

levels          nested levels of code, each open at its end
sizes           sizes as values: the table that the caller fills
memory          base addresses of tensors
elementwise     operations as instructions, one table
byte_tables     functions of one byte, computed for all 256 of them before all loops
code_tables     functions of codes of four bits, as permutations of a table of 16
neighbours      vectors that have all that the lanes of a load read
failure_report  failure reports as code
lookups         values that are looked up in either
vector          what runs along the lanes: a variable, copies, their masks
bounds          bounds of accesses: masks of lanes, and checks
loads           loads of scalars and of lanes, wherever these lie
value           values of nodes: evaluation, addresses, stores
context         what one function of a kernel works on, and its share of the work
"""
