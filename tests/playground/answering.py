"""Answers requests of the playground from standard input, a line each, with the stand-ins of the page in place of packages.

`python tests/playground/answering.py`: a line of JSON for a line of JSON. A request is one of the page, or `{"expressions": […]}`, each of
NumPy's, evaluated by the stand-in.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PLAYGROUND = ROOT / "website/playground"


def evaluated(np: Any, expression: str) -> dict[str, Any]:
    """What an expression of arrays evaluates to: dtype, shape and elements, or the name of the error."""
    try:
        with np.errstate(all="ignore"):
            result = eval(expression, {"np": np})
        a = result if isinstance(result, np.ndarray) else np.asarray(result)
        return {"dtype": str(a.dtype), "shape": list(a.shape), "data": list(map(repr, a.reshape(-1).tolist()))}
    except Exception as e:
        return {"error": type(e).__name__}


def main() -> None:
    sys.path[:0] = [str(PLAYGROUND / "standins"), str(PLAYGROUND / "python")]
    import numpy as np
    from anyshape_playground import Playground, answer

    assert "stand-in" in np.__version__
    playground = Playground((ROOT / "specs/library.yaml").read_text())
    for line in sys.stdin:
        request = json.loads(line)
        if "expressions" in request:
            print(json.dumps([evaluated(np, e) for e in request["expressions"]]), flush=True)
        else:
            print(answer(playground, line), flush=True)


if __name__ == "__main__":
    main()
