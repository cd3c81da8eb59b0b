"""Weights in few bits: an ONNX model whose constant weights are integers of 4 or 8 bits, or floats of 8, for us and for onnxruntime.

In: a model. Out: a model with the same inputs and outputs, and what each weight lost. Modules, each of which imports those before it alone:

    node_equation     what a node of a model computes, as one equation
    weight_uses       which nodes multiply rows by a constant, or look rows of one up: read off that equation
    rounding          a matrix as codes, scales and zero points, by groups of each row
    narrow_nodes      the one table of ONNX nodes that take weights in few bits
    report            what became of each weight, for people and as data
    narrowing         the graph with these nodes
    measuring         what that changes, on inputs of the user
    quantising        `quantise`
"""

from anyshape.quantisation.quantising import quantise
from anyshape.quantisation.report import QuantisationReport

__all__ = ["QuantisationReport", "quantise"]
