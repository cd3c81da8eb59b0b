"""What the playground's page asks of the generator and the run time, in an interpreter of Python within the browser.

In: a request as JSON. Out: an answer as JSON, which has `error` where the request cannot be answered. `answer` is the only entry point.
"""

from __future__ import annotations

import json
from typing import Any

from anyshape.errors import AnyshapeError
from anyshape_playground.called import CalledOp
from anyshape_playground.computed import compute
from anyshape_playground.edited import EditedOp, Faults, edit


class Playground:
    """The op as it was edited last, and the call of it as it was asked for last. A request whose predecessor failed is an error."""

    def __init__(self, library: str) -> None:
        self.library = library
        self.op: EditedOp | None = None
        self.call: CalledOp | None = None

    def edit(self, text: str) -> dict[str, Any]:
        self.op = self.call = None
        self.op = edit(text, self.library)
        return self.op.description()

    def infer(self, types: dict[str, str], params: dict[str, str]) -> dict[str, Any]:
        self.call = None
        if self.op is None:
            raise AnyshapeError("the spec has errors")
        self.call = CalledOp.of(self.op, types, params)
        return self.call.description()

    def compute(self, sizes: dict[str, int], fills: dict[str, str]) -> dict[str, Any]:
        return compute(self._called(), sizes, fills)

    def plan(self, sizes: dict[str, int]) -> dict[str, Any]:
        from anyshape_playground.planned import plan  # loads the compiler, which other answers need not wait for

        return plan(self._called(), sizes)

    def _called(self) -> CalledOp:
        if self.call is None:
            raise AnyshapeError("there is no call to compute")
        return self.call


def answer(playground: Playground, request: str) -> str:
    """Answers one request, `{"method": …, "arguments": {…}}`, whatever it is; afterwards the next can be asked."""
    asked = json.loads(request)
    try:
        result = getattr(playground, asked["method"])(**asked["arguments"])
    except Faults as e:
        result = {"error": "the spec has errors", "findings": e.findings}
    except AnyshapeError as e:
        result = {"error": str(e)}
    except RecursionError:
        result = {"error": "this is nested too deeply for the page"}
    except MemoryError as e:
        result = {"error": str(e) or "this is more than the page has memory for"}
    except Exception as e:  # whatever else an edited spec may bring about must not end the page
        result = {"error": f"{type(e).__name__}: {e}"}
    return json.dumps(result)
