"""Checks what ops mean. Checks change nothing; some ask the resolvers (`resolve`) what an expression is.

In: an `OpSpec` and the kinds of its names, later its `OpAnalysis`, or those of all ops. Out: findings, all of them.

Before an op is resolved:

library         the functions of `library:`
op              one op: what it must have, then the checks of its parts, down to `traits`
names           names, calls and simple kinds in every expression
identifiers     names that occur in generated Python
kinds           dims against runs, members of enumerations, static conditions
dtypes          every call decides each dtype variable
kernel          what equations define
procedure       what steps set and read, and where
random          dtypes of random numbers, the trait `random`
sequence        inputs that may be lists; the resolved kernel, too
mappings        rewrites, references, views, examples
onnx            mappings of ONNX and ATen, those that belong to no op, too
traits          traits that passes rely on

After it is resolved, most of them once all ops are:

meeting         elements that meet are of one dtype
compose         compositions: names, loops and branches
compose_calls   calls and signs in compositions
compose_dtypes  dtypes of these calls
bilinear        algorithms with fewer products compute what they stand for
rotations       transforms in steps are the whole transform
spellings       a spelling of Python means one op
advice          warnings, which never fail the command
"""
