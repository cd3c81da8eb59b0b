"""What the law of extremes compares of refusals for lack of memory."""

from anyshape_testing.laws.extremes import without_amounts


def test_amounts_of_memory_are_no_difference_and_all_else_is() -> None:
    one = "cannot allocate 68719527680 bytes for intermediate values: 23198195712 are available"
    assert without_amounts(one) == without_amounts(one.replace("68719527680", "1").replace("23198195712", "2"))
    assert without_amounts(one) == without_amounts(one.partition(":")[0])
    assert without_amounts(one) != without_amounts(one.replace("intermediate values", "a result"))
    assert without_amounts("index 5 is out of range") != without_amounts("index 6 is out of range")
