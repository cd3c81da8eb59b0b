"""What a symbolic reading of equations does not know: an element, or that one is needed."""

NOTHING = object()
"""Among the elements of a symbolic reading: one of which nothing is known."""


class UnknownElement(Exception):
    """The symbolic reading needs an element that is not known."""
