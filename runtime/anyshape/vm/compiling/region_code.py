"""Code of control flow: branches and loops are jumps in the table, their bodies stand where they run.

In: the code generator at a step with regions. Out: its instructions; addresses and dims of its results. A body has memory of its own,
regions used again each time it runs. A value that is carried to the next iteration is written to a region beside the one that is read, and
the two are swapped; values that iterations collect are appended to a region that grows by half. Nothing else outlives an iteration.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from anyshape.dims import Cond, Dim, Size, free_symbols
from anyshape.errors import UnsupportedError
from anyshape.graph.truth import count_of, known_truth
from anyshape.graph.value import Node, Value
from anyshape.passes.steps import RegionStep
from anyshape.vm.compiling.codegen import Codegen, StepCode
from anyshape.vm.compiling.emission import Emission, aligned, byte_count
from anyshape.vm.compiling.entry_code import begin_checks
from anyshape.vm.compiling.list_code import is_list
from anyshape.vm.compiling.liveness import Liveness
from anyshape.vm.compiling.stack_code import Stack, named, reserve, sizes_of_no_iterations
from anyshape.vm.compiling.walk_code import emit_walk
from anyshape.vm.program.memory_plan import Held, Inside
from anyshape.vm.program.table import ELEMENT_CODE, CheckRecord, Op


def emit_regions(g: Codegen, at: int, step: RegionStep) -> None:
    """The code of a branch or a loop."""
    control = step.node.op.control
    assert control is not None
    if control.repeats:
        _LoopCode(g, at, step).emit()
    else:
        _branch(g, at, step)


STEP_CODE = StepCode(emit_regions, emit_walk)


@dataclass(eq=False, kw_only=True)
class RegionCode(Codegen):
    """Code of one region. `places`: registers of its parameters' addresses; `spare`: by result, the region to compute it in."""

    places: Mapping[Value, int] = field(default_factory=dict)
    spare: Mapping[int, int] = field(default_factory=dict)
    owned: Collection[Value] = ()
    """Parameters that are lists and that the body releases."""

    def emit(self, liveness: Liveness) -> None:
        self.f, self.liveness = self.schedule.function, liveness
        begin_checks(self)
        self.body(self.spare, self.regions)
        self.refuse_pending()

    def own_lists(self) -> Iterable[Value]:
        return self.owned

    def output(self, k: int, v: Value) -> int:
        """The register of the address of a value that is carried to the next iteration."""
        self.check_sizes(v)
        return self.code.new(Op.EXTEND, self.spare[k], self.code.register(aligned(byte_count(v.type))))

    def address(self, v: Value) -> int:
        place = self.places.get(self.liveness.origin(v))
        return place if place is not None else super().address(v)

    def result(self, v: Value) -> int:
        """The address of a result; a list comes with a hold on it."""
        return self.holds.take(v, len(self.schedule.steps)) if is_list(v) else self.address(v)

    def release(self) -> None:
        """Emits the release of lists that are no result."""
        self.holds.after(len(self.schedule.steps))

    def is_direct(self, k: int) -> bool:
        """Tests whether result k was computed in its spare region."""
        storage = self.storages.get(self.liveness.origin(self.f.results[k]))
        return storage is not None and storage.result == k


def truth(g: Emission, v: Value) -> int:
    """The register of a condition."""
    if v.contents is not None:
        e = v.contents[0]
        assert isinstance(e, bool | Cond)
        return g.code.register(e)
    return g.code.new(Op.LOAD, g.address(v), 0, ELEMENT_CODE["bool"])


def _places(g: Emission, node: Node, params: Sequence[Value], liveness: Liveness) -> dict[Value, int]:
    """Addresses of captured values that the region reads, and of all captured lists."""
    captured = node.op.control.captured(node) if node.op.control is not None else ()
    inner = params[len(params) - len(captured) :]
    return {p: g.address(v) for p, v in zip(inner, captured, strict=True) if p in liveness.values or is_list(p)}


def _body(
    g: Codegen,
    at: int,
    step: RegionStep,
    k: int,
    places: Mapping[Value, int],
    spare: Mapping[int, int],
    owned: Collection[Value],
) -> RegionCode:
    return RegionCode(
        step.bodies[k], g.maker, (), code=g.code, constants=g.constants, numbers=g.numbers, kept=g.kept, kernels=g.kernels,
        checks=g.checks, sizes=set(g.sizes), regions=g.regions, names=g.names, notes=g.notes, functions=g.functions,
        places=places, spare=spare, owned=owned, step_code=STEP_CODE, around=g.in_use(at),
    )  # fmt: skip


def _branch(g: Codegen, at: int, step: RegionStep) -> None:
    """Emits a branch. Both bodies use the same regions: only one of them runs."""
    node, code = step.node, g.code
    cond = node.inputs[-1]
    assert cond is not None
    otherwise = code.unless(truth(g, cond))
    addresses = [code.unset() for _ in node.outputs]
    unbacked: dict[Dim, tuple[int, int]] = node.bound.unbacked
    sizes = {s: code.unset() for s in unbacked}
    before, highest, end = g.regions, g.regions, 0
    captured = node.op.control.captured(node) if node.op.control is not None else ()
    handed_over = [v for v in captured if is_list(v) and g.holds.is_last(v, at)]
    for v in handed_over:
        g.holds.owned.discard(v)  # each branch takes the hold over
    for k, region in enumerate(node.regions):
        with code.scope():
            g.regions = before
            if region.failure:
                _fail(g, region.failure)
            else:
                liveness = g.liveness.bodies[at][k]
                inner = dict(zip(captured, region.params[len(region.params) - len(captured) :], strict=True))
                body = _body(
                    g, at, step, k, _places(g, node, region.params, liveness), {}, [inner[v] for v in handed_over]
                )
                body.emit(liveness)
                title = f"{_title(node)}, where its condition {'holds' if k == 0 else 'does not hold'}"
                g.inside.append(Inside(title, body.plan()))
                highest = max(highest, body.regions)
                for to, v in zip(addresses, region.results, strict=True):
                    code.move(to, body.result(v))
                body.release()
                for s, (result, axis) in unbacked.items():
                    code.move(sizes[s], code.register((region.results[result].type.shape or ())[axis]))
        if k == 0:
            end = code.jump()
            code.land(otherwise)
    code.land(end)
    g.regions = highest
    for s, r in sizes.items():
        code.define(s, r)
    for v, address in zip(node.outputs, addresses, strict=True):
        _give(g, v, address)


def _title(node: Node) -> str:
    return f"{node.op.name} ({node.source})" if node.source else node.op.name


def _give(g: Emission, v: Value, address: int) -> None:
    """Sets the address of a result of the node."""
    g.storages[v].address = address
    if is_list(v):
        g.holds.own(v)


def _fail(g: Emission, text: str) -> None:
    g.checks.append(CheckRecord((text,), (), (), "this branch cannot be taken"))
    g.code.emit(Op.CHECK, g.code.register(0), len(g.checks) - 1)


class _LoopCode:
    """Code of one loop. Registers that change from iteration to iteration are written by moves at its end."""

    def __init__(self, g: Codegen, at: int, step: RegionStep) -> None:
        self.g, self.at, self.step, self.code, self.node = g, at, step, g.code, step.node
        self.region = step.node.regions[0]
        self.liveness = g.liveness.bodies[at][0]
        assert step.node.op.control is not None
        self.count = step.node.op.control.captures_from(step.node)
        self.carried = self.region.params[1 : 1 + self.count]
        self.iteration_symbols: set[Dim] = step.node.bound.iteration
        self.variables: set[int] = set()

    def emit(self) -> None:
        code = self.code
        self.begin()
        top = len(code.words)
        leave = code.unless(self.goes_on())
        with code.scope():
            self.one_iteration()
        code.jump(top)
        code.land(leave)
        self.finish()

    def variable(self, start: int) -> int:
        register = self.code.unset()
        self.code.move(register, start)
        self.variables.add(register)
        return register

    def new_region(self) -> int:
        self.g.regions += 1
        return self.g.regions - 1

    def begin(self) -> None:
        g, code, node = self.g, self.code, self.node
        zero = code.register(0)
        self.one = code.register(1)
        trip, cond = node.inputs[-2:]
        count = count_of(trip)
        self.trip = None
        if count is not None:
            self.trip = code.register(count)
        elif trip is not None:
            self.trip = code.new(Op.LOAD, g.address(trip), 0, ELEMENT_CODE["i64"])
        self.iteration = self.variable(zero)
        self.again = None
        if known_truth(cond) is not True or known_truth(self.region.results[0]) is not True:
            self.again = self.variable(self.one if cond is None else truth(g, cond))
        initial = [v for v in node.inputs[: self.count] if v is not None]
        self.addresses = [self.variable(g.holds.take(v, self.at) if is_list(v) else g.address(v)) for v in initial]
        self.dims: dict[Dim, int] = {}
        for p, v in zip(self.carried, initial, strict=True):
            for n, start in zip(p.type.shape or (), v.type.shape or ()):
                if isinstance(n, Dim) and n in self.iteration_symbols and n not in self.dims:
                    self.dims[n] = self.variable(code.register(start))
        self.pairs = [(self.new_region(), self.new_region()) for _ in self.carried]
        self.stacks = [Stack(g, node, k, self.new_region()) for k in range(self.count, len(node.outputs))]
        number = self.region.params[0]
        if self.again is None and self.trip is not None:
            reserve(self.stacks, self.trip)
        self.places = _places(g, node, self.region.params, self.liveness)
        if number in self.liveness.values:
            self.places[number] = code.new(Op.REGION, self.new_region(), code.register(8))

    def goes_on(self) -> int:
        """Emits the condition of another iteration; its register."""
        if self.trip is None:
            return self.again if self.again is not None else self.one
        left = self.code.new(Op.LT, self.iteration, self.trip)
        return left if self.again is None else self.code.new(Op.AND, left, self.again)

    def one_iteration(self) -> None:
        code, region = self.code, self.region
        for s, r in self.dims.items():
            code.define(s, r)
        for e in region.params[0].contents or ():
            if isinstance(e, Dim):
                code.define(e, self.iteration)
        number = self.places.get(region.params[0])
        if number is not None:
            code.emit(Op.STORE, number, 0, self.iteration, ELEMENT_CODE["i64"])
        places = {**self.places, **dict(zip(self.carried, self.addresses, strict=True))}
        spare = {1 + k: spare for k, (_, spare) in enumerate(self.pairs)}
        body = _body(self.g, self.at, self.step, 0, places, spare, [p for p in self.carried if is_list(p)])
        body.emit(self.liveness)
        self.g.inside.append(Inside(f"each iteration of {_title(self.node)}", body.plan(), tuple(self.held(body))))
        self.g.regions = body.regions
        for stack, v in zip(self.stacks, region.results[1 + self.count :], strict=True):
            stack.append(v, body.address(v), self.iteration)
        self.hand_on(body)

    def held(self, body: RegionCode) -> Iterator[Held]:
        """Lists memory beside the body's own, for people."""
        results = self.region.results[1:]
        for p, v, pair in zip(self.carried, results, self.pairs):
            if not is_list(p) and body.liveness.origin(v) is not p:
                yield Held(p.name, pair, self.g.spelled(aligned(byte_count(v.type))))
        for stack, v in zip(self.stacks, results[self.count :], strict=True):
            yield Held(stack.called, (stack.region,), self.g.spelled(byte_count(v.type)), collected=True)

    def hand_on(self, body: RegionCode) -> None:
        """Emits the carried values of the next iteration. All are computed before any is put in place: they may be permuted."""
        code, moves = self.code, list[tuple[int, int]]()
        swaps: list[tuple[int, int]] = []
        for k, (p, v) in enumerate(zip(self.carried, self.region.results[1 : 1 + self.count], strict=True)):
            if is_list(p):
                handle = body.result(v)
                if v is not p:
                    moves.append((self.addresses[k], handle))
            elif body.liveness.origin(v) is not p:
                moves.append((self.addresses[k], self.carried_over(body, k, v)))
                swaps.append(self.pairs[k])
            for n, after in zip(p.type.shape or (), v.type.shape or ()):
                if isinstance(n, Dim) and n in self.dims and not (isinstance(after, Dim) and after is n):
                    moves.append((self.dims[n], code.register(after)))
        body.release()
        if self.again is not None:
            moves.append((self.again, truth(body, self.region.results[0])))
        moves.append((self.iteration, code.new(Op.ADD, self.iteration, self.one)))
        safe = []
        for to, source in dict(moves).items():
            if source in self.variables:
                kept = code.unset()
                code.move(kept, source)
                source = kept
            safe.append((to, source))
        for to, source in safe:
            code.move(to, source)
        for a, b in swaps:
            code.emit(Op.SWAP, a, b)

    def carried_over(self, body: RegionCode, k: int, v: Value) -> int:
        """Emits a carried value in its spare region, copied if need be; the register of its address."""
        if body.is_direct(1 + k):
            return body.address(v)
        size = self.code.register(byte_count(v.type))
        to = self.code.new(Op.STACK, self.pairs[k][1], size, named(self.g, self.node, f"carried value {k}"))
        self.code.emit(Op.COPY, to, body.address(v), size)
        return to

    def finish(self) -> None:
        code, node = self.code, self.node
        sizes_of_no_iterations(self.stacks, self.iteration)
        for s, (k, axis) in node.bound.unbacked.items():
            if k < self.count:
                n = (self.carried[k].type.shape or ())[axis]
                code.define(s, self.after(n))
            else:
                code.define(s, self.iteration if axis == 0 else self.stacks[k - self.count].dims[axis - 1])
        for v, address in zip(node.outputs, self.addresses):
            _give(self.g, v, address)
        for v, stack in zip(node.outputs[self.count :], self.stacks, strict=True):
            self.g.storages[v].address = code.new(Op.EXTEND, stack.region, stack.filled)

    def after(self, n: Size) -> int:
        """The register of a dim of a carried value when the loop is over."""
        if isinstance(n, Dim) and n in self.dims:
            return self.dims[n]
        unknown = [str(s) for s in free_symbols(n) if not self.code.is_defined(s)]
        if unknown:
            raise UnsupportedError(f"nothing defines the dim {n} behind a loop: {', '.join(unknown)}")
        return self.code.register(n)
