"""Infers dtypes of kernel expressions in terms of the spec's dtype variables, for scratch tensors without an annotation.

In: a resolved kernel. Out: the dtype variable or dtype of an expression. Literals and sizes take the dtype of the other operand.
"""

from __future__ import annotations

from anyshape_gen.analysis_model import OpAnalysis, ResolvedKernel
from anyshape_gen.emit.refusal import NotExecuted
from anyshape_gen.functions import CASTS
from anyshape_gen.nodes import (
    BinOp,
    BoolOp,
    Call,
    Compare,
    Comprehension,
    Expr,
    IfExp,
    Name,
    Node,
    Reduction,
    TensorRead,
    Unary,
)


class ElementDtypes:
    """Dtypes of the tensors of one kernel; those of scratches follow from the equations that define them."""

    def __init__(self, a: OpAnalysis, kernel: ResolvedKernel) -> None:
        self.kinds = a.kinds
        self.known: dict[str, str] = {o.name: o.signature.dtype for o in (*a.spec.inputs, *a.spec.outputs)}
        self.known |= {s.name: s.dtype for s in kernel.scratch if s.dtype is not None}
        self.variables = frozenset(d.var for d in a.spec.dtypes)
        self.functions = {f.name: f for f in a.kernel_functions}
        self.values: dict[str, Expr] = {}
        for q in kernel.equations:
            self.values.setdefault(q.target.tensor, q.value)

    def of(self, e: Expr) -> str:
        """Infers the dtype of an expression. Raises NotExecuted where nothing decides it."""
        dtype = self.find(e)
        if dtype is None:
            raise NotExecuted(e, "a scratch tensor of literals only, without an annotation,")
        return dtype

    def find(self, e: Node) -> str | None:
        match e:
            case TensorRead(tensor):
                return self.tensor(tensor)
            case Compare() | BoolOp() | Unary("not", _):
                return "bool"
            case Reduction(kind, element):
                if kind in ("any", "all"):
                    return "bool"
                return "i64" if kind in ("count", "argmax", "argmin") else self.find(element)
            case Comprehension(element):
                return self.find(element)
            case Call("argsort" | "int", _, _):
                return "i64"
            case Call(func, args, _):
                return self._call(func, args)
            case Unary(_, operand):
                return self.find(operand)
            case BinOp(_, left, right):
                return self.find(left) or self.find(right)
            case IfExp(_, then, other):
                return self.find(then) or self.find(other)
        return None

    def _call(self, func: str, args: tuple[Node, ...]) -> str | None:
        if func in ("cast", "saturate", "bitcast"):
            last = args[-1]
            return last.id if isinstance(last, Name) else None
        if func in self.variables or func in CASTS:
            return func
        if func in self.functions:
            return next((d for x in args if (d := self.find(x))), self.find(self.functions[func].result))
        return next((d for x in args if (d := self.find(x))), None)

    def tensor(self, name: str) -> str | None:
        """The dtype of a tensor; None where nothing decides that of a scratch."""
        if name not in self.known and name in self.values:
            dtype = self.find(self.values[name])
            if dtype is not None:
                self.known[name] = dtype
        return self.known.get(name)
