"""Writes what is generated: one emitter for each output, a pure function from `Analysis` to {path: text}. None writes a file.

In: an `Analysis`, without findings. Out: texts of Python modules and pages. Its rooms, each of which imports only those before it:

    text        how text is written: modules, long lines, names, refusals
    rules       type relations
    bodies      equations and procedures, as builders
    calls       definitions of ops, the public functions, compositions, rewrites
    operators   what operators of ONNX and ATen mean; ops as functions of ONNX
    draws       random calls, references and examples
    pages       reference pages

package     all files of the generated package
standalone  the files of a package outside this repository, besides its ops
"""
