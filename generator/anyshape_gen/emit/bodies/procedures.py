"""Emits procedures as builders: one call of `anyshape.equations.procedure.Procedure` for each step of the spec.

In: an op's analysis. Out: the text of `<op>_kernel`, and the names of the rule that it reads, which the relation binds.
"""

from __future__ import annotations

from collections.abc import Iterator

from anyshape_gen.emit.bodies.kernel_reads import index, run
from anyshape_gen.emit.bodies.kernel_reductions import loop
from anyshape_gen.emit.bodies.kernel_text import KernelText
from anyshape_gen.emit.bodies.kernels import KernelCode, KernelEmitter, dtype_keys, narrow_tensors, unpack
from anyshape_gen.emit.rules.relations import attribute_name, attributes_of
from anyshape_gen.emit.rules.rule_text import MUL, source_of
from anyshape_gen.emit.text.module import quoted, tuple_text, use
from anyshape_gen.emit.text.names import kernel_name
from anyshape_gen.emit.text.refusal import NotExecuted
from anyshape_gen.model.analysis import OpAnalysis, OutputShape, ResolvedKernel, ResolvedProcedure
from anyshape_gen.model.body_nodes import Branch, Break, For, Set, Step, Store, While
from anyshape_gen.model.nodes import (
    BoolOp,
    Call,
    Comprehension,
    Expr,
    Generator,
    Item,
    Name,
    Node,
    Over,
    Slice,
    Star,
    TensorRead,
    Unary,
    VecLit,
)
from anyshape_gen.model.traverse import children, free_names, walk, walk_all

_UPDATES = {"=": "set", "+=": "add", "-=": "sub", "*=": "mul"}


def procedure(a: OpAnalysis) -> KernelCode:
    """Emits the builder. Raises NotExecuted."""
    assert a.procedure is not None
    return ProcedureEmitter(a, a.procedure).emit()


class ProcedureText(KernelText):
    """Emits expressions of steps: a loop may have as many iterations as a variable's current value. `loops`: variables of open loops."""

    loops: frozenset[str] = frozenset()

    def trip_count(self, e: Item) -> str:
        return self.text(e) if self.is_size(e) else f"procedure.size({self.text(e)})"

    def is_steady(self, e: Item) -> bool:
        return not free_names(e) & (set(self.variables) - self.loops)

    def steady_domain(self, g: Generator) -> tuple[str, str] | None:
        if g.over is Over.EXTENTS or self.is_size(g.domain) or not self.is_steady(g.domain):
            return None
        name = g.targets[0].name
        ends = g.domain.args if isinstance(g.domain, Call) and g.over is Over.RANGE else (g.domain,)
        if len(ends) > 2 or any(isinstance(x, (Star, Slice)) for x in ends):
            raise NotExecuted(g, "a range with a step")
        self.variables[name] = False
        if len(ends) == 1:
            return self.trip_count(ends[0]), kernel_name(name)
        low, high = (self.at_least(x, MUL) for x in ends)
        self.shifted[name] = f"({kernel_name(name)} + {low})"
        return f"procedure.size({use('as_expr')}({high}) - {low})", kernel_name(name)


class ProcedureEmitter(KernelEmitter):
    """Emits one builder."""

    def __init__(self, a: OpAnalysis, resolved: ResolvedProcedure) -> None:
        super().__init__(a, ResolvedKernel((), (), (), resolved.asserts))
        self.resolved = resolved
        own = [*resolved.variables, *(s.name for s in resolved.arrays)]
        tensors = frozenset([o.name for o in (*a.spec.inputs, *a.spec.outputs)] + own)
        functions = frozenset(f.name for f in a.kernel_functions)
        self.text: ProcedureText = ProcedureText(a.kinds, attributes_of(a), dtype_keys(a), tensors, functions)
        known = {o.name: o.signature.dtype for o in (*a.spec.inputs, *a.spec.outputs)}
        known |= {**resolved.variables, **{s.name: s.dtype or "i64" for s in resolved.arrays}}
        self.text.narrow = narrow_tensors(a, known)
        reads = [n for n in walk_all(resolved.steps) if isinstance(n, TensorRead) and n.parts]
        self.text.unproved = frozenset(map(id, reads))
        # What decides a step is lazy by the steps that it becomes, `Procedure.decided`.
        deciding = {id(n) for step in walk_all(resolved.steps) for n in _deciding(step)}
        chains = [n for n in walk_all(resolved.steps) if isinstance(n, BoolOp) and id(n) not in deciding]
        self.text.lazy = frozenset(id(read) for chain in chains for read in _guarded(chain))
        self.outputs = {o.name for o in a.spec.outputs}
        if any(o.signature.variadic for o in a.spec.outputs):
            raise NotExecuted(a.spec, "a procedure with a variadic output")

    def emit(self) -> KernelCode:
        self._begin()
        self._start()
        self._steps(self.resolved.steps)
        self._end()
        self.text.used_tensors = {n: None for n in self.text.used_tensors if n not in self.outputs}
        return self._finish(self.resolved.unbacked)

    def _start(self) -> None:
        text = self.text
        unbacked = [
            f"bound.{attribute_name(name)}: {text.hoist(f'{name}_most', high)}"
            for name, high in self.resolved.unbacked.items()
        ]
        counted = ", counted=True" if self._multiplies() else ""
        self.code.add(f"procedure = eqs.procedure({'{' + ', '.join(unbacked) + '}' if unbacked else ''}{counted})")
        unpack(self.code, [(kernel_name(n), f'procedure.output("{n}")') for n in self.outputs_in_order()])
        definitions = [
            (kernel_name(n), f'procedure.variable("{n}", {text.dtype_named(d)})')
            for n, d in self.resolved.variables.items()
        ]
        definitions += [
            (
                kernel_name(s.name),
                f'procedure.array("{s.name}", {text.dtype_named(s.dtype or "i64")}, {text.text(s.shape)})',
            )
            for s in self.resolved.arrays
        ]
        for name, maker in definitions:
            self.code.add(f"{name} = {maker}")

    def _multiplies(self) -> bool:
        """Whether an output's upper bound can exceed the size of every input: a dim is twice in the upper bounds of its dims."""
        return any(self._multiplies_in(o) for o in self.a.outputs)

    def _multiplies_in(self, o: OutputShape) -> bool:
        mentioned = [n.id for n in walk(o.shape) if isinstance(n, Name)]
        unbacked = [name for name in mentioned if name in self.resolved.unbacked]
        names = [n.id for name in unbacked for n in walk(self.resolved.unbacked[name]) if isinstance(n, Name)]
        names += [name for name in mentioned if name not in unbacked]
        if not unbacked or len(set(names)) == len(names):
            return False
        reads = [n for n in walk_all(self.resolved.steps) if isinstance(n, TensorRead) and n.tensor == o.name]
        if reads:
            raise NotExecuted(
                reads[0], f"reading '{o.name}', whose sizes are counted first since their upper bounds are multiplied,"
            )
        return True

    def outputs_in_order(self) -> list[str]:
        return [o.name for o in self.a.spec.outputs]

    def _end(self) -> None:
        sizes = ", ".join(f"bound.{attribute_name(n)}: {kernel_name(n)}" for n in self.resolved.unbacked)
        sizes_argument = f"{{{sizes}}}, " if sizes else ""
        assert self.a.spec.procedure is not None
        self.code.add(f"procedure.end({sizes_argument}source={quoted(source_of(self.a.spec.procedure))})")

    # --- steps

    def _steps(self, steps: tuple[Step, ...]) -> None:
        if not steps:
            self.code.add("pass")
        for step in steps:
            self._step(step)

    def _block(self, head: str, steps: tuple[Step, ...]) -> None:
        self.code.add(head)
        self.code.indent()
        self._steps(steps)
        self.code.dedent()

    def _step(self, step: Step) -> None:
        text = self.text
        match step:
            case Set(targets=(target,), value=Call("array", (_, value), ())):
                self.code.add(f"procedure.fill({kernel_name(target.tensor)}, {text.text(value)})")
            case Set(targets=(target,), op=op, value=value):
                more = f', "{_UPDATES[op]}"' if op != "=" else ""
                self.code.add(f"procedure.set({self._place(target)}, {text.text(value)}{more})")
            case Set(targets=targets, value=VecLit(items)):
                pairs = [f"({self._place(t)}, {text.text(v)})" for t, v in zip(targets, items)]
                self.code.add(f"procedure.set_all({', '.join(pairs)})")
            case For():
                self._loop(step)
            case While(cond=cond, limit=limit, body=body):
                self.code.add(f"with procedure.repeat({text.text(limit)}):")
                self.code.indent()
                self.code.add(f"procedure.unless({text.text(cond)})")
                self._steps(body)
                self.code.dedent()
            case Branch():
                self._branch(step)
            case Break():
                self.code.add("procedure.leave()")

    def _branch(self, step: Branch) -> None:
        static = self.text.is_static(step.cond)
        cond = self.text.text(step.cond)
        self._block(f"if {cond}:" if static else f"with procedure.when({cond}):", step.then)
        if step.other:
            self._block("else:" if static else "with procedure.otherwise():", step.other)

    def _place(self, target: Store) -> str:
        name = self.text.name(target.tensor)
        if target.element is not None:
            raise NotExecuted(target, "an element of a variadic in a procedure")
        return f"{use('checked')}({name}){index(self.text, target.parts)}" if target.parts else f"{name}[()]"

    def _loop(self, step: For) -> None:
        target = step.targets[0]
        before, loops = dict(self.text.variables), self.text.loops
        head = self._head(step)
        self.text.variables[target.name] = target.run
        self.text.loops = loops | {target.name}
        self._block(f"with procedure.{head} as {kernel_name(target.name)}:", step.body)
        self.text.variables, self.text.loops = before, loops

    def _head(self, step: For) -> str:
        text, name = self.text, quoted(step.targets[0].name)
        match step.domain:
            case Call("argsort", (Comprehension(element, generators, ()),), keywords):
                order = "".join(f", {k}={text.text(v)}" for k, v in keywords)
                return f"ordered({name}, {loop(text, generators, element, ())}{order})"
            case Call("range", ends, ()) if len(ends) <= 2:
                arguments = [text.text(x) for x in ends if not isinstance(x, (Star, Slice))]
                return f"range({name}, {', '.join(arguments if len(arguments) == 2 else ['0', *arguments])})"
            case Call("range", _, _):
                raise NotExecuted(step, "a range with a step")
        if step.over is Over.ITEMS:
            return f"items({name}, {tuple_text([f'*{run(text, step.domain)}'])})"
        if step.over is Over.EXTENTS:
            return f"loops_over({name}, {run(text, step.domain)})"
        return f"loop({name}, {text.text(step.domain)})"


def _deciding(step: Node) -> Iterator[Expr]:
    """Yields each `and` and `or` that is the condition of a step, or an operand of one that is."""
    parts: list[Expr] = [step.cond] if isinstance(step, (Branch, While)) else []
    while parts:
        match part := parts.pop():
            case BoolOp(items=items):
                yield part
                parts += items
            case Unary("not", operand):
                parts.append(operand)


def _guarded(chain: BoolOp) -> Iterator[TensorRead]:
    """Yields the reads in operands of `and`, `or` whose indices an operand on their left is about."""
    said: set[str] = set()
    for item in chain.items:
        for read in (n for n in walk(item) if isinstance(n, TensorRead) and n.parts):
            named = {
                n.id if isinstance(n, Name) else n.tensor
                for p in read.parts
                for n in walk(p)
                if isinstance(n, (Name, TensorRead))
            }
            if named & said:
                yield read
        said |= _values(item)


def _values(e: Node) -> set[str]:
    """Collects the names and tensors of which an expression has values, and not those of its indices alone."""
    if isinstance(e, TensorRead):
        return {e.tensor}
    return ({e.id} if isinstance(e, Name) else set()).union(*map(_values, children(e)))
