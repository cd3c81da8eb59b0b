"""Writes what is generated: one emitter for each output, a pure function from `Analysis` to {path: text}. None writes a file.

In: an `Analysis`, without findings. Out: texts of Python modules and pages.

package            all files of the generated package
module             a Python module: header, the imports that its code uses, code
layout             long lines, broken as a formatter does
names              names of a spec as names of Python
refusal            expressions that have no meaning where they stand
relations          type relations: signature and shape rule
rule_text          expressions of rules
kernels            kernel builders
kernel_scope       the names in scope in an equation
kernel_text        expressions of kernels
kernel_reads       reads of tensors
kernel_reductions  reductions
procedures         procedures as builders
compositions       bodies of composed ops
assigned           names that steps of a composition assign
rewrites           rewrites over graph nodes
ops                the OpDef of every variant
api                the public functions, `ops.softmax(x, axis=-1)`
values             operators and methods of Values
dialects           what differs between ONNX and ATen
mappings           a function for each operator of a dialect and opset
mapping_terms      terms and conditions of mappings
mapping_tables     tables of these functions
strategies         data of an op's property tests
cases              the function that draws random calls
case_writer        its state while it is emitted
case_text          parts of it as text
case_sizes         draws of dims and runs
case_params        draws of parameters
case_contents      ranges of the contents of inputs
constraints        asserts, solved for the names that are drawn
inlining           names and functions, inlined in asserts
docs               reference pages
reports            stored results that pages show
onnx_functions     ops as functions of ONNX
standalone         the files of a package outside this repository, besides its ops
"""
