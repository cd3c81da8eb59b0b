"""Dtype variables that a call says: what `check_dtypes` lets pass, and that a kernel is built wherever it does."""

from __future__ import annotations

import pytest

from anyshape_gen.analysis import analyse

HEAD = """
ops:
  op:
    inputs: {x: "T[*d]", a: "F[*d]?", b: "G[*d] = 1"}
    outputs: {y: "T[*d]"}
    dtypes: {T: number, F: float, G: float, U: accum(T), V: "promote(F, T)"}
"""


@pytest.mark.parametrize(
    "body",
    [
        'kernel: "y[*i] = T(U(x[*i]))"',
        'kernel: "y[*i] = T(b[*i])"',
        'kernel: "y[*i] = T(F(x[*i]) * a[*i]) if present(a) else x[*i]"',
        'kernel: "y[*i] = x[*i] if not present(a) else T(F(x[*i]))"',
        'kernel: "y[*i] = T(V(x[*i])) if present(a) and present(b) else x[*i]"',
        'kernel: "y[*i] = x[*i] if not present(a) or not present(b) else T(F(x[*i]) + F(G(b[*i])))"',
        """kernel: |
      if present(a):
          t[*i]: F[*d] = x[*i]
          y[*i] = T(t[*i])
      else: y[*i] = x[*i]""",
        """define: |
      def wide(v): return F(v)
    kernel: |
      y[*i] = T(wide(x[*i])) if present(a) else x[*i]""",
    ],
)
def test_what_is_said_where_it_is_read_is_let_pass(body: str) -> None:
    analyse({"a.yaml": f"{HEAD}    {body}\n"}, complete=False)
