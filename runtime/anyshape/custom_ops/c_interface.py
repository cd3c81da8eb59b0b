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
class ApiFunction:
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
    ApiFunction("CreateStatus", 0, _STATUS, "int code, const char *text"),
    ApiFunction("GetErrorCode", 1, "int", "const void *status"),
    ApiFunction("CreateCustomOpDomain", 26, _STATUS, "const char *name, void **domain"),
    ApiFunction("CustomOpDomain_Add", 27, _STATUS, "void *domain, const void *op"),
    ApiFunction("AddCustomOpDomain", 28, _STATUS, "void *options, void *domain"),
    ApiFunction(
        "CreateTensorWithDataAsOrtValue", 49, _STATUS,
        "const void *memory, void *data, size_t bytes, const int64_t *shape, size_t rank, int type, void **value",
    ),
    ApiFunction("GetTensorMutableData", 51, _STATUS, "void *value, void **data"),
    ApiFunction("CreateTensorTypeAndShapeInfo", 57, _STATUS, "void **type"),
    ApiFunction("SetDimensions", 59, _STATUS, "void *type, const int64_t *dims, size_t rank"),
    ApiFunction("GetTensorElementType", 60, _STATUS, "const void *type, int *element"),
    ApiFunction("GetDimensionsCount", 61, _STATUS, "const void *type, size_t *rank"),
    ApiFunction("GetDimensions", 62, _STATUS, "const void *type, int64_t *dims, size_t rank"),
    ApiFunction("GetSymbolicDimensions", 63, _STATUS, "const void *type, const char **names, size_t rank"),
    ApiFunction("GetTensorTypeAndShape", 65, _STATUS, "const void *value, void **type"),
    ApiFunction("CreateCpuMemoryInfo", 69, _STATUS, "int allocator, int memory, void **info"),
    ApiFunction("AllocatorAlloc", 75, _STATUS, "void *allocator, size_t bytes, void **memory"),
    ApiFunction("AllocatorFree", 76, _STATUS, "void *allocator, void *memory"),
    ApiFunction("KernelInfoGetAttribute_float", 85, _STATUS, "const void *info, const char *name, float *value"),
    ApiFunction("KernelInfoGetAttribute_int64", 86, _STATUS, "const void *info, const char *name, int64_t *value"),
    ApiFunction("KernelInfoGetAttribute_string", 87, _STATUS, "const void *info, const char *name, char *text, size_t *bytes"),
    ApiFunction("KernelContext_GetInputCount", 88, _STATUS, "const void *context, size_t *count"),
    ApiFunction("KernelContext_GetOutputCount", 89, _STATUS, "const void *context, size_t *count"),
    ApiFunction("KernelContext_GetInput", 90, _STATUS, "const void *context, size_t index, const void **value"),
    ApiFunction(
        "KernelContext_GetOutput", 91, _STATUS,
        "void *context, size_t index, const int64_t *dims, size_t rank, void **value",
    ),
    ApiFunction("ReleaseStatus", 93, "void", "void *status"),
    ApiFunction("ReleaseMemoryInfo", 94, "void", "void *memory"),
    ApiFunction("ReleaseValue", 96, "void", "void *value"),
    ApiFunction("ReleaseTensorTypeAndShapeInfo", 99, "void", "void *type"),
    ApiFunction("ReleaseCustomOpDomain", 101, "void", "void *domain"),
    ApiFunction("ReleaseAllocator", 132, "void", "void *allocator"),
    ApiFunction("KernelInfoGetAttributeArray_float", 162, _STATUS, "const void *info, const char *name, float *values, size_t *count"),
    ApiFunction(
        "KernelInfoGetAttributeArray_int64", 163, _STATUS,
        "const void *info, const char *name, int64_t *values, size_t *count",
    ),
    ApiFunction("KernelContext_GetAllocator", 253, _STATUS, "const void *context, const void *memory, void **allocator"),
    ApiFunction("ShapeInferContext_GetInputCount", 267, _STATUS, "const void *context, size_t *count"),
    ApiFunction("ShapeInferContext_GetInputTypeShape", 268, _STATUS, "const void *context, size_t index, void **type"),
    ApiFunction("ShapeInferContext_GetAttribute", 269, _STATUS, "const void *context, const char *name, const void **attribute"),
    ApiFunction("ShapeInferContext_SetOutputTypeShape", 270, _STATUS, "const void *context, size_t index, const void *type"),
    ApiFunction("SetSymbolicDimensions", 271, _STATUS, "void *type, const char **names, size_t rank"),
    ApiFunction("ReadOpAttr", 272, _STATUS, "const void *attribute, int type, void *data, size_t bytes, size_t *read"),
    ApiFunction(
        "KernelContext_ParallelFor", 274, _STATUS,
        "const void *context, void (*each)(void *, size_t), size_t total, size_t batches, void *data",
    ),
    ApiFunction(  # since version 25: called where the version is at least that
        "KernelInfoGetAttributeArray_string", 417, _STATUS,
        "const void *info, const char *name, void *allocator, char ***texts, size_t *count",
    ),
)  # fmt: skip

ELEMENT_TYPES = {
    "f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "bool": 9, "f16": 10, "f64": 11, "u32": 12, "u64": 13, "bf16": 16,
    "f8e4m3fn": 17, "f8e4m3fnuz": 18, "f8e5m2": 19, "f8e5m2fnuz": 20,
}  # fmt: skip
"""onnxruntime's numbers of the element types that tensors of both have, one element in whole bytes."""


def declarations(entries: Sequence[ApiFunction] = ENTRIES) -> str:
    """C text: the version, and a macro for each function, called on the table `entries`."""
    return "\n".join([f"#define ORT_VERSION {VERSION}", *(e.declaration() for e in entries), ""])
