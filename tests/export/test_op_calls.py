"""The calls of ops that libraries have kernels for: those whose operands are sizes, and what no library has."""

from __future__ import annotations

import pytest

from anyshape.errors import AnyshapeError, ArgumentError, DtypeError
from anyshape.graph.registry import find_op
from anyshape.vm.export.op_calls import Choice, calls_of, demand_choice, unexportable


def described(name: str, ranks: tuple[int, int] = (0, 4)) -> list[str]:
    return [c.described for c in calls_of(find_op(name), Choice(ranks=ranks), {"f32"})]


def test_operands_are_of_any_values_and_as_many_as_there_may_be_dims() -> None:
    assert described("dyn.reshape", (1, 2)) == [
        f"dyn.reshape(x: f32[{dims}], newshape: i64[{n}])" for dims in ("x_0", "x_0, x_1") for n in (1, 2)
    ]


def test_types_of_any_rank_are_of_the_ranks_that_the_op_takes() -> None:
    def ranks(name: str, least: int, most: int) -> list[str]:
        choice = Choice(ranks=(least, most), types={"x": "f32[...]"})
        return [c.types["x"] for c in calls_of(find_op(name), choice, {"f32"})]

    assert ranks("softmax", 0, 2) == ["f32[x_0]", "f32[x_0, x_1]"]
    assert ranks("relu", 0, 1) == ["f32[]", "f32[x_0]"]
    with pytest.raises(AnyshapeError, match="softmax: axis -1 is out of range for x of rank 0"):
        ranks("softmax", 0, 0)


def test_calls_whose_ranks_depend_on_sizes_are_left_out() -> None:
    with pytest.raises(ArgumentError, match="gather_nd: no call with inputs of ranks 1 to 2"):
        calls_of(find_op("gather_nd"), Choice(ranks=(1, 2)), {"f32", "i64"})


def test_what_no_library_has_is_known_before() -> None:
    assert "strings" in (unexportable(find_op("string_concat")) or "")
    assert unexportable(find_op("relu")) is None


def test_a_parameter_that_no_op_has_is_refused() -> None:
    demand_choice([find_op("softmax")], Choice(params={"axis": [0]}))
    with pytest.raises(ArgumentError, match="no op of softmax has a parameter axle; they have axis"):
        demand_choice([find_op("softmax")], Choice(params={"axle": [0]}))


def test_a_name_of_no_element_type_is_refused() -> None:
    demand_choice([find_op("softmax")], Choice(dtypes=["f16", "i64"]))
    with pytest.raises(DtypeError, match="unknown dtype 'f99'; known are f32"):
        demand_choice([find_op("softmax")], Choice(dtypes=["f32", "f99"]))
