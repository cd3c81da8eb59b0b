"""`python -m anyshape.custom_ops`: the ops that can be custom ops of onnxruntime, then those that are refused, with reasons.

In: nothing. Out: text.
"""

from __future__ import annotations

from anyshape.custom_ops.refusals import refused, taken

if __name__ == "__main__":
    print("\n".join([*taken(), *(f"refused: {name}: {why}" for name, why in refused().items())]))
