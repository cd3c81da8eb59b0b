"""What a block is said to raise, and does not."""

from __future__ import annotations

import pytest

from anyshape.errors import AnyshapeError, ShapeError
from anyshape_testing.compare.raising import raises


def test_what_is_said_is_taken() -> None:
    with raises(AnyshapeError, match="larger than .*"):
        raise ShapeError("a window larger than its input")


@pytest.mark.parametrize("words", ["smaller", "^larger"])
def test_other_words_are_reported(words: str) -> None:
    with pytest.raises(AssertionError, match="a window larger"), raises(ShapeError, match=words):
        raise ShapeError("a window larger than its input")


def test_nothing_raised_is_reported() -> None:
    with pytest.raises(AssertionError, match="no ShapeError was raised"), raises(ShapeError):
        pass


def test_another_error_is_let_through() -> None:
    with pytest.raises(ValueError, match="else"), raises(ShapeError):
        raise ValueError("something else")
