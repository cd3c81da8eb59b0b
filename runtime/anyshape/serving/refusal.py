"""Why a request is refused: a status of HTTP, which gRPC has equivalents of, and words."""

from __future__ import annotations

from http import HTTPStatus

from anyshape.errors import AnyshapeError


class RefusedRequest(AnyshapeError):
    """A request that is not answered by results."""

    def __init__(self, text: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> None:
        super().__init__(text)
        self.status = status
