"""Names of dtypes in the protocol."""

from __future__ import annotations

from anyshape.dtypes import DType, parse_dtype

DATATYPES: dict[DType, str] = {
    parse_dtype("bool"): "BOOL",
    **{parse_dtype(f"i{n}"): f"INT{n}" for n in (8, 16, 32, 64)},
    **{parse_dtype(f"u{n}"): f"UINT{n}" for n in (8, 16, 32, 64)},
    **{parse_dtype(f"f{n}"): f"FP{n}" for n in (16, 32, 64)},
    parse_dtype("bf16"): "BF16",
}
DTYPES = {name: dtype for dtype, name in DATATYPES.items()}
