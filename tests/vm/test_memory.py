"""The memory plan: no two values that live at once share a slot, for random lifetimes; and sharing does happen."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from anyshape.dims import symbol
from anyshape.vm.arena import MAPPED, Context
from anyshape.vm.memory import Tenant, plan_slots

N, M = symbol("n", 1), symbol("m", 1)
SIZES = (64, 128, 64 * N, 64 * M, 64 * N * M, 64 * N + 64)


@st.composite
def tenants(draw: st.DrawFn) -> list[Tenant]:
    made = []
    for start in range(draw(st.integers(0, 25))):
        end = start + draw(st.integers(0, 6))
        made.append(Tenant(draw(st.sampled_from(SIZES)), start // 2, end, draw(st.booleans())))
    return made


@given(tenants())
def test_values_of_one_slot_never_live_at_once(listed: list[Tenant]) -> None:
    chosen, slots = plan_slots(listed)
    for k, t in enumerate(listed):
        assert t.bytes in slots[chosen[k]].sizes
        assert slots[chosen[k]].late == t.late
        for j in range(k):
            u = listed[j]
            assert chosen[j] != chosen[k] or u.end < t.start or t.end < u.start


def test_a_chain_takes_two_slots() -> None:
    _, slots = plan_slots([Tenant(SIZES[k % 6], k, k + 1) for k in range(20)])
    assert len(slots) == 2


def test_the_slot_of_the_same_size_is_taken() -> None:
    listed = [Tenant(64 * N, 0, 1), Tenant(64 * M, 0, 1), Tenant(64 * M, 2, 3), Tenant(64 * N, 2, 3)]
    chosen, _ = plan_slots(listed)
    assert chosen[0] == chosen[3] and chosen[1] == chosen[2]


def test_regions_are_aligned_and_grow() -> None:
    context = Context(2, 4, (0, 2))
    for size in (1, 64, 1000, MAPPED, 3 * MAPPED + 5, 10):
        address = context.region(0, size)
        assert address % 64 == 0 and context.regions[0].capacity >= size
    assert context.region(0, 10) == address
    assert context.regions[1].capacity == 0
