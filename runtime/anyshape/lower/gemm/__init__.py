"""The matrix product: one packed, register-blocked template for every contraction, sizes known at run time.

`emit_contraction` writes the loops of one product into a kernel; the micro-kernels and packers it calls are shared.
"""

from .background_packing import collected
from .byte_dots import LARGEST_PRODUCT, add_dot, multiply_add_words, pairs_held, products_of_pairs, sums_of_pairs
from .codes import SIGN, Codes, Side, digits, ones, per_word, words_of
from .driver import emit_contraction
from .library import ELEMENTS, packer_of, resolve, toucher
from .matrix_tiles import TALLEST
from .packing import prepack_b, prepacked_elements
from .pairs import Pairs, narrow_pair, pair_words
from .panels import emit_panels, emit_prepack, emit_word_panels
from .spec import (
    Batch,
    ContractionSpec,
    Destination,
    Epilogue,
    Gathered,
    Masks,
    Packed,
    Packer,
    Prepacked,
    RowBody,
    RowsDone,
    Strided,
    TapRows,
    Tile,
    WindowDim,
)
from .tap_rows import tap_scratch_bytes
from .tap_tiles import tap_tile_scratch_bytes
from .tiles import Tiles, panel_bytes, scratch_bytes, tiles_for
from .words import OperandWords, by_matrix_tiles, panel_steps

__all__ = [
    "ELEMENTS",
    "LARGEST_PRODUCT",
    "SIGN",
    "TALLEST",
    "Batch",
    "Codes",
    "ContractionSpec",
    "Destination",
    "Epilogue",
    "Gathered",
    "Masks",
    "OperandWords",
    "Packed",
    "Packer",
    "Pairs",
    "Prepacked",
    "RowBody",
    "RowsDone",
    "Side",
    "Strided",
    "TapRows",
    "Tile",
    "Tiles",
    "WindowDim",
    "add_dot",
    "by_matrix_tiles",
    "collected",
    "digits",
    "emit_contraction",
    "emit_panels",
    "emit_prepack",
    "emit_word_panels",
    "multiply_add_words",
    "narrow_pair",
    "ones",
    "packer_of",
    "pair_words",
    "pairs_held",
    "panel_bytes",
    "panel_steps",
    "per_word",
    "prepack_b",
    "prepacked_elements",
    "products_of_pairs",
    "resolve",
    "scratch_bytes",
    "sums_of_pairs",
    "tap_scratch_bytes",
    "tap_tile_scratch_bytes",
    "tiles_for",
    "toucher",
    "words_of"
]  # fmt: skip
