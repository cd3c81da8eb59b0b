"""The page of errors is what the code prints now."""

import pytest

from tests.errors.provoke import PAGE, page


@pytest.mark.in_every_sample
def test_the_page_is_current():
    assert PAGE.read_text() == page(), "run: python -m tests.errors.provoke"
