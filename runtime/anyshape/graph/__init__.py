"""The typed SSA graph: ops, values, nodes, functions; inference, text form, verifier.

    OpDef                               one variant of an op, as `anyshape_ops` registers it: inputs, params, outputs, dtypes, relation,
                                        kernel, view, composition, rewrites; `variant` is "", "static" or "dyn"
    Value(type, name)                   `contents`: elements as sizes or truths, of small tensors of rank 1 at most; `constant`: an array
    build(op, inputs, attrs, source="") -> Node     infers types at once; raises TypeRelationError, ShapeError or DtypeError. What was
                                        inferred of an equal call before is remembered (`inference_cache`)
    Node(op, inputs, attrs, outputs, checks, source)     `regions`: bodies of an op of control flow, which capture nothing
    Function(name, params, results, …)  `nodes` in topological order
    OpDef.moves                         dtype variables whose elements are moved and never computed with: it takes strings, too (`moving`)
    InputDef.sequence                   a list may stand for the tensors; `bound.walk` says what is done for each element (`sequences`)

What makes one call into calls of other ops is `anyshape.expansion`; what looks at whole functions is `anyshape.passes`.
"""

from anyshape.graph.function import Function
from anyshape.graph.infer import build
from anyshape.graph.opdef import OpDef
from anyshape.graph.value import Node, Value, constant

__all__ = ["Function", "Node", "OpDef", "Value", "build", "constant"]
