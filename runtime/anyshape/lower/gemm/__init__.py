"""The matrix product: one packed, register-blocked template for every contraction, sizes known at run time.

`emit_contraction` writes the loops of one product into a kernel; the micro-kernels and packers it calls are shared.
"""

from .background_packing import collected
from .driver import emit_contraction
from .library import ELEMENTS, packer_of, resolve, toucher
from .packing import prepack_b, prepacked_elements
from .panels import emit_panels, emit_prepack
from .spec import (
    Batch,
    ContractionSpec,
    Destination,
    Epilogue,
    Gathered,
    Masks,
    Packed,
    Prepacked,
    RowBody,
    RowsDone,
    Strided,
    Tile,
)
from .tiles import Tiles, panel_bytes, scratch_bytes, tiles_for

__all__ = [
    "ELEMENTS", "Batch", "ContractionSpec", "Destination", "Epilogue", "Gathered", "Masks", "Packed", "Prepacked", "RowBody",
    "RowsDone", "Strided", "Tile", "Tiles", "collected", "emit_contraction", "emit_panels", "emit_prepack",
    "packer_of", "panel_bytes", "prepack_b", "prepacked_elements", "resolve", "scratch_bytes", "tiles_for", "toucher"
]  # fmt: skip
