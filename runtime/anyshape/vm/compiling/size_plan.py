"""Plans that follow a policy of sizes: a program for all sizes, and variants for those that the policy names.

In: a plan for all sizes, a policy, and what compiles a function for bounds. Out: a `SizePlan`. A call looks its sizes up; the first ones of
a size are counted and timed, and once enough came the variant is compiled by a thread of the process, never by a call. Until it is ready
calls run the plan for all sizes.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from queue import SimpleQueue
from typing import Any

from numpy.typing import NDArray

from anyshape.dims import bounds
from anyshape.errors import ArgumentError
from anyshape.graph.function import Function
from anyshape.logs import COMPILE
from anyshape.policies import SizeBounds, SizePolicy
from anyshape.vm.compiling.options import Options
from anyshape.vm.compiling.plans import Direct, Plan
from anyshape.vm.program.table import Program
from anyshape.vm.report.size_variants import Key, SizeVariant, State

Array = NDArray[Any]
MOST_ENTRIES = 4096
"""Sizes of calls that are looked up; when there are more, all are forgotten (`SizePlan._forget_sizes`)."""


class SizeEntry:
    """What runs calls of one size. `watched`: such calls are counted and timed; `used`: there was one since variants were last let go."""

    __slots__ = ("direct", "key", "plan", "used", "variant", "watched")

    def __init__(self, key: Key, plan: Plan, variant: SizeVariant | None) -> None:
        self.key, self.variant, self.watched, self.used = key, variant, variant is not None, True
        self.take(plan)

    def take(self, plan: Plan) -> None:
        self.plan, self.direct = plan, plan.direct


class SizePlan:
    """Plan for all sizes, with variants. `compile_for` compiles for bounds of dims and says what is to be known of that, and raises an
    AnyshapeError where it is refused."""

    def __init__(
        self,
        generic: Plan,
        f: Function,
        policy: SizePolicy,
        compile_for: Callable[[SizeBounds], tuple[Plan, str]],
        variants: list[SizeVariant],
    ) -> None:
        self.generic, self._policy, self._compile, self._variants = generic, policy, compile_for, variants
        self._f = f
        named = [s for s in f.symbols() if s.name in policy.dims]
        self._places = [(*place, s) for s in named if (place := f.place_of(s)) is not None]
        self._range = {s.name: bounds(s) for _, _, s in self._places}
        self._entries: dict[Key, SizeEntry] = {}
        self._known: dict[tuple[tuple[str, Any], ...], SizeVariant] = {}
        self._plans: dict[SizeVariant, Plan] = {}
        self._queued: list[SizeVariant] = []
        self._changed = threading.Condition(threading.RLock())
        self.direct: Direct | None = None if generic.direct is None or not self._places else self._run_direct
        for sizes in policy.at:
            if not self._takes(sizes):
                raise ArgumentError(
                    f"policy: at {dict(sizes)}: the inputs' dims are bounded, and do not have these sizes"
                )
            variant = self._variant(self._bounds(sizes), kept=True)
            if variant is not None and variant.state is State.COUNTED:
                self._build(variant, refuse=True)

    def run(self, arrays: Sequence[Array], places: Sequence[Array | None] = ()) -> list[Array]:
        entry = self._entry(tuple([arrays[k].shape[axis] for k, axis, _ in self._places]))
        if not entry.watched:
            entry.used = True
            return entry.plan.run(arrays, places)
        plan = self.generic if entry.variant is not None and entry.variant.lacks(entry.key) else entry.plan
        programs, start = len(plan.programs), time.perf_counter()
        results = plan.run(arrays, places)
        seconds = time.perf_counter() - start
        self._note(entry, plan, seconds if len(plan.programs) == programs else None)
        return results

    def _run_direct(self, args: Sequence[Any], places: Sequence[Array | None] = ()) -> list[Array] | None:
        """Runs a call as the direct entry takes it; None where arguments have to be bound first, or the call is timed."""
        try:
            entry = self._entry(tuple([args[k].shape[axis] for k, axis, _ in self._places]))
        except (AttributeError, IndexError, TypeError):
            return None
        if entry.watched or entry.direct is None:
            return None
        entry.used = True
        return entry.direct(args, places)

    def _entry(self, key: Key) -> SizeEntry:
        entry = self._entries.get(key)
        if entry is None:
            with self._changed:
                if len(self._entries) >= MOST_ENTRIES:
                    self._forget_sizes()
                sizes = {s.name: n for (_, _, s), n in zip(self._places, key, strict=True)}
                variant = self._variant(self._bounds(sizes), kept=self._policy.hot > 0)
                entry = SizeEntry(key, self._plans.get(variant, self.generic) if variant else self.generic, variant)
                self._entries[key] = entry
        return entry

    def _forget_sizes(self) -> None:
        """Forgets which calls there were, and variants that were never worth a compile."""
        self._entries.clear()
        self._known = {key: v for key, v in self._known.items() if v.state is not State.COUNTED}
        self._variants[:] = self._known.values()

    def _bounds(self, sizes: Mapping[str, int]) -> SizeBounds:
        """The policy's bounds; none for sizes that the function does not take, of which the plan for all sizes tells what is wrong."""
        return self._policy.bounds(sizes) if self._takes(sizes) else {}

    def _takes(self, sizes: Mapping[str, int]) -> bool:
        """Tests whether the function's dims may have these sizes, as far as the bounds of each say."""
        ranges = ((sizes[name], *r) for name, r in self._range.items())
        return all((least is None or least <= n) and (most is None or n <= most) for n, least, most in ranges)

    def _variant(self, asked: SizeBounds, *, kept: bool) -> SizeVariant | None:
        """The variant for bounds; a new one if `kept`."""
        key = tuple(sorted(asked.items()))
        if key and kept and key not in self._known:
            self._known[key] = SizeVariant(bounds=dict(asked))
            self._variants.append(self._known[key])
        return self._known.get(key)

    def _note(self, entry: SizeEntry, plan: Plan, seconds: float | None) -> None:
        """Counts a call of an entry that ran in a plan; `seconds` is None if it compiled a program, so that its time tells nothing."""
        with self._changed:
            variant = entry.variant
            assert variant is not None
            entry.used = True
            ready = self._plans.get(variant)
            again = seconds is None or variant.timed(entry.key, seconds, own=plan is ready)
            if ready is not None:
                entry.watched = plan is not ready or again
            elif variant.state is State.FAILED:
                entry.watched = False
            elif variant.state is State.COUNTED:
                variant.calls += 1
                if variant.calls >= self._policy.hot:
                    variant.state = State.QUEUED
                    self._queued.append(variant)
                    in_background(lambda: self._build(variant))

    def _build(self, variant: SizeVariant, *, refuse: bool = False) -> None:
        """Compiles a variant and gives it to the calls that come. `refuse` raises what the compile raises."""
        start = time.perf_counter()
        plan: Plan | None = None
        try:
            plan, variant.reason = self._compile(variant.bounds)
        except Exception as e:  # in the background nobody would hear of it, and calls have a plan that runs
            if refuse:
                raise
            variant.reason = str(e)
        with self._changed:
            variant.compile_seconds = time.perf_counter() - start
            variant.state = State.FAILED if plan is None else State.READY
            COMPILE.info("%s: variant for %s", self._f.name, variant)
            if plan is not None:
                self._plans[variant] = plan
                self._give(variant, plan)
                self._let_go(variant)
            if variant in self._queued:
                self._queued.remove(variant)
            self._changed.notify_all()

    def _let_go(self, newest: SizeVariant) -> None:
        """Forgets variants that no call has used for longest, where there are more than the policy keeps."""
        while len(self._plans) > max(1, self._policy.most, len(self._policy.at)):
            used = {e.variant for e in self._entries.values() if e.used}
            victim = next((v for v in self._plans if v is not newest and v not in used), None)
            if victim is None:
                for e in self._entries.values():
                    e.used = False
                victim = next(v for v in self._plans if v is not newest)
            del self._plans[victim]
            victim.state, victim.calls = State.COUNTED, 0
            self._give(victim, self.generic)

    def _give(self, variant: SizeVariant, plan: Plan) -> None:
        """Makes calls within the bounds of a variant run a plan, and be timed at first."""
        for e in self._entries.values():
            if e.variant is variant:
                e.take(plan)
                e.watched = True

    def wait(self) -> None:
        """Returns once no variant is being compiled."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queued)

    def by(self, options: Options) -> Plan:
        """The plan for all sizes with other options, without variants."""
        return self.generic.by(options)

    def cancel(self) -> None:
        for plan in (self.generic, *list(self._plans.values())):
            plan.cancel()

    def release(self) -> None:
        for plan in (self.generic, *list(self._plans.values())):
            plan.release()

    @property
    def overwrites(self) -> tuple[tuple[int, int], ...]:
        return ()  # each call may run another program

    @property
    def programs(self) -> tuple[Program, ...]:
        return tuple(p for plan in (self.generic, *list(self._plans.values())) for p in plan.programs)

    @property
    def bytes(self) -> int:
        return sum(plan.bytes for plan in (self.generic, *list(self._plans.values())))


class _Worker:
    """The thread of a process that compiles variants, one after the other; a process ends when the compile under way has."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.ended = False
        self.thread = threading.Thread(target=self._work, name="anyshape variants", daemon=True)
        self.thread.start()
        atexit.register(self._end)

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None and not self.ended:
            job()

    def _end(self) -> None:
        self.ended = True
        self.jobs.put(None)
        self.thread.join()


_workers: dict[int, _Worker] = {}
"""The worker of each process, since a forked child has no threads."""


def in_background(job: Callable[[], None]) -> None:
    if os.getpid() not in _workers:
        _workers.clear()
        _workers[os.getpid()] = _Worker()
    _workers[os.getpid()].jobs.put(job)
