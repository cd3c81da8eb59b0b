"""What custom ops use of onnxruntime's C interface: places of functions in its table, their types, numbers of element types.

In: nothing. Out: data, and C text that declares it. The table, `OrtApi`, only grows at its end: a place holds for all later versions.
Source: `onnxruntime_c_api.h` (github.com/microsoft/onnxruntime, include/onnxruntime/core/session), as of version 29 of the interface, where
each function says since which version it is there. An `OrtStatus *`, or another address of a type of onnxruntime's, is `void *` here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

VERSION = 17
"""The version of the interface that is asked for; onnxruntime 1.17 is the first that has it."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A function of the table: its name, its place counted in functions, its result and the types of its arguments."""

    name: str
    place: int
    result: str
    arguments: str

    def declaration(self) -> str:
        return (
            f"typedef {self.result} (*{self.name}_fn)({self.arguments});\n"
            f"#define ort_{self.name} (({self.name}_fn)entries[{self.place}])"
        )


_STATUS = "void *"
ENTRIES = (
    Entry("CreateStatus", 0, _STATUS, "int code, const char *text"),
    Entry("GetErrorCode", 1, "int", "const void *status"),
    Entry("CreateCustomOpDomain", 26, _STATUS, "const char *name, void **domain"),
    Entry("CustomOpDomain_Add", 27, _STATUS, "void *domain, const void *op"),
    Entry("AddCustomOpDomain", 28, _STATUS, "void *options, void *domain"),
    Entry(
        "CreateTensorWithDataAsOrtValue", 49, _STATUS,
        "const void *memory, void *data, size_t bytes, const int64_t *shape, size_t rank, int type, void **value",
    ),
    Entry("GetTensorMutableData", 51, _STATUS, "void *value, void **data"),
    Entry("CreateTensorTypeAndShapeInfo", 57, _STATUS, "void **type"),
    Entry("SetDimensions", 59, _STATUS, "void *type, const int64_t *dims, size_t rank"),
    Entry("GetTensorElementType", 60, _STATUS, "const void *type, int *element"),
    Entry("GetDimensionsCount", 61, _STATUS, "const void *type, size_t *rank"),
    Entry("GetDimensions", 62, _STATUS, "const void *type, int64_t *dims, size_t rank"),
    Entry("GetSymbolicDimensions", 63, _STATUS, "const void *type, const char **names, size_t rank"),
    Entry("GetTensorTypeAndShape", 65, _STATUS, "const void *value, void **type"),
    Entry("CreateCpuMemoryInfo", 69, _STATUS, "int allocator, int memory, void **info"),
    Entry("AllocatorAlloc", 75, _STATUS, "void *allocator, size_t bytes, void **memory"),
    Entry("AllocatorFree", 76, _STATUS, "void *allocator, void *memory"),
    Entry("KernelInfoGetAttribute_float", 85, _STATUS, "const void *info, const char *name, float *value"),
    Entry("KernelInfoGetAttribute_int64", 86, _STATUS, "const void *info, const char *name, int64_t *value"),
    Entry("KernelInfoGetAttribute_string", 87, _STATUS, "const void *info, const char *name, char *text, size_t *bytes"),
    Entry("KernelContext_GetInputCount", 88, _STATUS, "const void *context, size_t *count"),
    Entry("KernelContext_GetOutputCount", 89, _STATUS, "const void *context, size_t *count"),
    Entry("KernelContext_GetInput", 90, _STATUS, "const void *context, size_t index, const void **value"),
    Entry(
        "KernelContext_GetOutput", 91, _STATUS,
        "void *context, size_t index, const int64_t *dims, size_t rank, void **value",
    ),
    Entry("ReleaseStatus", 93, "void", "void *status"),
    Entry("ReleaseMemoryInfo", 94, "void", "void *memory"),
    Entry("ReleaseValue", 96, "void", "void *value"),
    Entry("ReleaseTensorTypeAndShapeInfo", 99, "void", "void *type"),
    Entry("ReleaseCustomOpDomain", 101, "void", "void *domain"),
    Entry("ReleaseAllocator", 132, "void", "void *allocator"),
    Entry("KernelInfoGetAttributeArray_float", 162, _STATUS, "const void *info, const char *name, float *values, size_t *count"),
    Entry(
        "KernelInfoGetAttributeArray_int64", 163, _STATUS,
        "const void *info, const char *name, int64_t *values, size_t *count",
    ),
    Entry("KernelContext_GetAllocator", 253, _STATUS, "const void *context, const void *memory, void **allocator"),
    Entry("ShapeInferContext_GetInputCount", 267, _STATUS, "const void *context, size_t *count"),
    Entry("ShapeInferContext_GetInputTypeShape", 268, _STATUS, "const void *context, size_t index, void **type"),
    Entry("ShapeInferContext_GetAttribute", 269, _STATUS, "const void *context, const char *name, const void **attribute"),
    Entry("ShapeInferContext_SetOutputTypeShape", 270, _STATUS, "const void *context, size_t index, const void *type"),
    Entry("SetSymbolicDimensions", 271, _STATUS, "void *type, const char **names, size_t rank"),
    Entry("ReadOpAttr", 272, _STATUS, "const void *attribute, int type, void *data, size_t bytes, size_t *read"),
    Entry(
        "KernelContext_ParallelFor", 274, _STATUS,
        "const void *context, void (*each)(void *, size_t), size_t total, size_t batches, void *data",
    ),
    Entry(  # since version 25: called where the version is at least that
        "KernelInfoGetAttributeArray_string", 417, _STATUS,
        "const void *info, const char *name, void *allocator, char ***texts, size_t *count",
    ),
)  # fmt: skip

ELEMENT_TYPES = {
    "f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11, "u32": 12, "u64": 13, "bf16": 16,
    "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20,
}  # fmt: skip
"""onnxruntime's numbers of the element types that tensors of both have, one element in whole bytes."""


def declarations(entries: Sequence[Entry] = ENTRIES) -> str:
    """C text: the version, and a macro for each function, called on the table `entries`."""
    return "\n".join([f"#define ORT_VERSION {VERSION}", *(e.declaration() for e in entries), ""])
