"""Features of x86-64 processors that a target's code uses, as bits of what the processor says of itself.

In: a target. Out: for each word of a processor's answers the bits that have to be set. A vector register can be used only where the
operating system keeps it too: the features that bring one have bits of XCR0 beside those of `cpuid`.
Sources: Intel SDM vol. 2A, "CPUID", and vol. 1, "Enumeration of CPU Support for XSAVE Instructions and XSAVE-Supported Features"; AMD64
APM vol. 3, appendix E; the x86-64 psABI 1.0, section 3.1.1, for the levels that LLVM's names of processors stand for.
"""

from __future__ import annotations

from enum import IntEnum

from anyshape.lower.target import Target


class ProcessorAnswer(IntEnum):
    """Word of a row of answers of a processor; a word that it has no answer for is 0."""

    BASIC = 0
    """ECX of `cpuid` 1"""
    STRUCTURED = 1
    """EBX of `cpuid` 7, 0"""
    STRUCTURED_ECX = 2
    """ECX of `cpuid` 7, 0"""
    STRUCTURED_EDX = 3
    """EDX of `cpuid` 7, 0"""
    SECOND_EAX = 4
    """EAX of `cpuid` 7, 1"""
    EXTENDED = 5
    """ECX of `cpuid` 0x80000001"""
    STATE = 6
    """The low half of XCR0: the registers that the operating system keeps"""


OSXSAVE = 1 << 27
"""The bit of BASIC that says that XCR0 may be read."""
_YMM, _ZMM = 0x06, 0xE6
"""Bits of XCR0: the registers xmm and ymm; besides these the masks and zmm, the upper sixteen too."""
_BITS: dict[str, dict[ProcessorAnswer, int]] = {
    "sse3": {ProcessorAnswer.BASIC: 1 << 0},
    "ssse3": {ProcessorAnswer.BASIC: 1 << 9},
    "fma": {ProcessorAnswer.BASIC: 1 << 12},
    "cx16": {ProcessorAnswer.BASIC: 1 << 13},
    "sse4.1": {ProcessorAnswer.BASIC: 1 << 19},
    "sse4.2": {ProcessorAnswer.BASIC: 1 << 20},
    "movbe": {ProcessorAnswer.BASIC: 1 << 22},
    "popcnt": {ProcessorAnswer.BASIC: 1 << 23},
    "avx": {ProcessorAnswer.BASIC: 1 << 28 | OSXSAVE, ProcessorAnswer.STATE: _YMM},
    "f16c": {ProcessorAnswer.BASIC: 1 << 29},
    "bmi": {ProcessorAnswer.STRUCTURED: 1 << 3},
    "avx2": {ProcessorAnswer.STRUCTURED: 1 << 5},
    "bmi2": {ProcessorAnswer.STRUCTURED: 1 << 8},
    "avx512f": {ProcessorAnswer.STRUCTURED: 1 << 16, ProcessorAnswer.STATE: _ZMM},
    "avx512dq": {ProcessorAnswer.STRUCTURED: 1 << 17},
    "avx512ifma": {ProcessorAnswer.STRUCTURED: 1 << 21},
    "avx512cd": {ProcessorAnswer.STRUCTURED: 1 << 28},
    "avx512bw": {ProcessorAnswer.STRUCTURED: 1 << 30},
    "avx512vl": {ProcessorAnswer.STRUCTURED: 1 << 31},
    "avx512vbmi": {ProcessorAnswer.STRUCTURED_ECX: 1 << 1},
    "avx512vbmi2": {ProcessorAnswer.STRUCTURED_ECX: 1 << 6},
    "gfni": {ProcessorAnswer.STRUCTURED_ECX: 1 << 8},
    "avx512vnni": {ProcessorAnswer.STRUCTURED_ECX: 1 << 11},
    "avx512bitalg": {ProcessorAnswer.STRUCTURED_ECX: 1 << 12},
    "avx512vpopcntdq": {ProcessorAnswer.STRUCTURED_ECX: 1 << 14},
    "avx512fp16": {ProcessorAnswer.STRUCTURED_EDX: 1 << 23},
    "avx512bf16": {ProcessorAnswer.SECOND_EAX: 1 << 5},
    "sahf": {ProcessorAnswer.EXTENDED: 1 << 0},
    "lzcnt": {ProcessorAnswer.EXTENDED: 1 << 5},
}
"""Bits of each feature, by LLVM's names"""
FEATURES = tuple(_BITS)
_OF_NAME = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "cx16", "sahf")
"""Features that LLVM's names of processors have, of which a target's list need not mention any."""


def bits_of(feature: str) -> dict[ProcessorAnswer, int]:
    """The bits that say that there is a feature, and that the operating system keeps its registers."""
    return _BITS[feature]


def needed_bits(target: Target) -> dict[ProcessorAnswer, int]:
    """The bits that have to be set for the code of a target to run."""
    needed = dict.fromkeys(ProcessorAnswer, 0)
    for feature in (*_OF_NAME, *(f[1:] for f in target.features.split(",") if f.startswith("+"))):
        for answer, bits in bits_of(feature).items():
            needed[answer] |= bits
    return needed
