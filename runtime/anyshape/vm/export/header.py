"""The C header of an exported model.

In: the interface, and what is known of the programs. Out: text. Types that all models share are in each header, once where several are
included.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import indent, wrap

from anyshape.dims import Size
from anyshape.vm.export.interface import Interface, InterfaceTensor, bounds_text
from anyshape.vm.export.status_code import BYTES, TEXT, Code
from anyshape.vm.export.tensor_code import has_codes
from anyshape.vm.native import MOST_THREADS

_SHARED = f"""\
#ifndef ANYSHAPE_STATUS
#define ANYSHAPE_STATUS
enum {{
{{codes}}
}};

/* What became of a call. `text` says it in words, cut after {BYTES - TEXT - 1} bytes; `length` are its bytes. */
typedef struct anyshape_status {{
  int32_t code;
  int32_t output;  /* ANYSHAPE_OUTPUT: the number of the output, else -1 */
  uint64_t needed; /* ANYSHAPE_ARENA, ANYSHAPE_OUTPUT: bytes that are needed */
  uint64_t length;
  char text[{BYTES - TEXT}];
}} anyshape_status;

/* Memory for an output. `shape` may be NULL; else it takes its dims, also where the memory is too small. */
typedef struct anyshape_output {{
  void *data;
  uint64_t bytes;
  int64_t *shape;
}} anyshape_output;

/* Threads of the caller. `parallel_for` calls part(job, k) once for each k from 0 to parts - 1, in any threads and order, and returns when
   all have returned; it may be NULL where `threads` is below 2. At most {MOST_THREADS} threads are used. */
typedef struct anyshape_pool {{
  int64_t threads;
  void *context;
  void (*parallel_for)(void *context, int64_t parts, void (*part)(void *job, int64_t k), void *job);
}} anyshape_pool;

/* A tensor, laid out as `DLTensor` of dlpack.h, from which a pointer can be cast: device 1 is the CPU; strides may be NULL. */
typedef struct anyshape_tensor {{
  void *data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *shape, *strides;
  uint64_t byte_offset;
}} anyshape_tensor;
#endif
"""
_MEANINGS = {
    Code.OK: "the outputs are computed",
    Code.SHAPE: "a size or an element is refused",
    Code.OVERFLOW: "a size does not fit 64 bits",
    Code.ARENA: "the arena is too small, or not at a multiple of 64 bytes",
    Code.OUTPUT: "the memory of an output is too small",
    Code.NULL: "a pointer is NULL that may not be",
    Code.WEIGHTS: "the weights are not those of this model",
    Code.TENSOR: "a tensor has another dtype, rank or layout than the model takes",
    Code.DEFECT: "a defect of the exported code",
    Code.PROCESSOR: "the processor, or its operating system, lacks instructions of the code",
}
_MOST = (
    "The most bytes that any call with these sizes may need, whatever its elements: a call with so many never ends with ANYSHAPE_ARENA.",
    "All bits are set where they do not fit 63 bits, and where there is no limit.",
)
_CHOOSING = (
    "There is code for each of these levels of processors. The first call of any function chooses the highest that the processor and",
    "its operating system have, for all models of this object. Where they have none, calls end with ANYSHAPE_PROCESSOR, and the bytes",
    "of the arena are all bits set. Returns the name of the level that is chosen; NULL if there is none.",
)
_FORCING = (
    "Chooses a level by its number, as for tests: later calls run that one. ANYSHAPE_PROCESSOR, and no change, where the processor or its",
    "operating system lacks its instructions.",
)


@dataclass(frozen=True)
class Description:
    """What a header says beside the interface: the bytes of the arena as a formula where only dims decide them, notes on memory that
    they do not decide, the bytes of a file of weights, or 0."""

    made_for: str
    formulas: Sequence[str]
    grows: bool
    unknown: Sequence[str]
    weight_bytes: int = 0
    is_limited: bool = field(default=False, kw_only=True)
    """Whether what elements decide has a limit that dims decide."""
    levels: tuple[str, ...] = field(default=(), kw_only=True)
    """The levels of processors, of which one is chosen; empty where there is one alone."""


def header(m: Interface, d: Description) -> str:
    """The text of `NAME.h`."""
    lines = [
        f"/* {m.name}, exported by anyshape for {d.made_for}. Do not edit. */",
        f"#ifndef {m.name.upper()}_H",
        f"#define {m.name.upper()}_H",
        "#include <stdint.h>",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        shared_types(),
        *_described(m, d),
        *_numbered(m, d),
        "",
        *(_of_levels(m, d) if d.levels else []),
        *_functions(m, d),
        "",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        "#endif",
        "",
    ]
    return "\n".join(lines)


def shared_types() -> str:
    """The types that all models share, once where several are included."""
    codes = (
        ",\n".join(f"  ANYSHAPE_{c.name} = {c.value} /* {_MEANINGS[c]} */" for c in Code if c is not Code.PROCESSOR)
        .replace(" /*", ", /*")
        .replace("*/,", "*/")
    )
    return _SHARED.replace("{codes}", codes)


def _described(m: Interface, d: Description) -> list[str]:
    """Comments on the dims, the inputs and the outputs."""
    return [
        _comment(["Dims, which callers pass:", *(f"  {x.c_name}: {x.label}, {bounds_text(x.symbol)}" for x in m.dims)])
        if m.dims
        else "/* All dims are numbers. */",
        _comment(["Inputs, dense and in this order:", *_tensors(m, m.inputs)]) if m.inputs else "/* No inputs. */",
        _comment(["Outputs:", *_tensors(m, m.outputs), *d.unknown]),
    ]


def _numbered(m: Interface, d: Description) -> list[str]:
    """Macros of the numbers of inputs and outputs, their ranks and the bytes of the weights."""
    upper = m.name.upper()
    return [
        *(
            f"#define {upper}_{what}_{t.c_name.upper()} {k}"
            for what, ts in (("INPUT", m.inputs), ("OUTPUT", m.outputs))
            for k, t in enumerate(ts)
        ),
        f"#define {upper}_INPUTS {len(m.inputs)}",
        f"#define {upper}_OUTPUTS {len(m.outputs)}",
        *(f"#define {upper}_RANK_{t.c_name.upper()} {t.rank}" for t in m.outputs),
        *([f"#define {upper}_WEIGHT_BYTES {d.weight_bytes}"] if d.weight_bytes else []),
    ]


def _functions(m: Interface, d: Description) -> list[str]:
    """Declarations of the functions, each with its comment."""
    dims = "".join(f"int64_t {dim.c_name}, " for dim in m.dims)
    alone = dims.removesuffix(", ")
    weights = "const void *weights, " if d.weight_bytes else ""
    return [
        _comment(_memory(d)),
        f"uint64_t {m.name}_arena_bytes({alone or 'void'});",
        "",
        "/* Whether the model takes these sizes, as far as sizes decide. `status` may be NULL, here and below. */",
        f"int32_t {m.name}_check({dims}anyshape_status *status);",
        "",
        "/* The shape of an output; -1 for a dim that only a run tells. */",
        f"int32_t {m.name}_output_shape(int32_t output, {dims}int64_t *shape, anyshape_status *status);",
        "",
        _comment(_running(d)),
        f"int32_t {m.name}_run(void *arena, uint64_t arena_bytes, {weights}const void *const *inputs, anyshape_output *outputs,",
        f"{' ' * (len(m.name) + 13)}{dims}anyshape_status *status);",
        "",
        "/* The same with kernels shared over threads; results are the same to the bit. `pool` may be NULL. */",
        f"uint64_t {m.name}_arena_bytes_shared(int64_t threads{', ' * bool(m.dims)}{alone});",
        *(
            [_comment(_MOST), f"uint64_t {m.name}_arena_bytes_most(int64_t threads{', ' * bool(m.dims)}{alone});"]
            if d.is_limited
            else []
        ),
        f"int32_t {m.name}_run_shared(const anyshape_pool *pool, void *arena, uint64_t arena_bytes, {weights}",
        f"{' ' * (len(m.name) + 20)}const void *const *inputs, anyshape_output *outputs,",
        f"{' ' * (len(m.name) + 20)}{dims}anyshape_status *status);",
        *_with_tensors(m, weights),
    ]


def _of_levels(m: Interface, d: Description) -> list[str]:
    """Numbers of the levels, and the declarations of what chooses one."""
    lacking = f"#define ANYSHAPE_PROCESSOR {Code.PROCESSOR} /* {_MEANINGS[Code.PROCESSOR]} */"
    numbers = [
        f"#define {m.name.upper()}_LEVEL_{name.upper().replace('-', '_')} {k}" for k, name in enumerate(d.levels)
    ]
    return [
        "#ifndef ANYSHAPE_PROCESSOR",
        lacking,
        "#endif",
        *numbers,
        "",
        _comment(_CHOOSING),
        f"const char *{m.name}_level(void);",
        "",
        _comment(_FORCING),
        f"int32_t {m.name}_choose(int32_t level, anyshape_status *status);",
        "",
    ]


def _with_tensors(m: Interface, weights: str) -> list[str]:
    if not has_codes(m):
        return ["", "/* There is no function for tensors of DLPack, which packs elements of fewer than 8 bits. */"]
    return [
        "",
        "/* The plan of such a call: writes the shapes of outputs, -1 for a dim that only a run tells, and the bytes of the arena. */",
        f"int32_t {m.name}_plan_tensors(int64_t threads, const anyshape_tensor *inputs, anyshape_tensor *outputs, uint64_t *arena_bytes,",
        f"{' ' * (len(m.name) + 22)}anyshape_status *status);",
        "",
        "/* The same with tensors, whose shapes tell the sizes. An output's shape says how much room there is, and becomes its own. */",
        f"int32_t {m.name}_run_tensors(const anyshape_pool *pool, void *arena, uint64_t arena_bytes, {weights}",
        f"{' ' * (len(m.name) + 21)}const anyshape_tensor *inputs, anyshape_tensor *outputs, anyshape_status *status);",
    ]


def header_by_rank(name: str, ranks: Sequence[int]) -> str:
    """The declarations of what chooses a model by the rank of an input."""
    upper, listed = name.upper(), ", ".join(map(str, ranks))
    return "\n".join(
        [
            f"#ifndef {upper}_H",
            f"#define {upper}_H",
            "#ifdef __cplusplus",
            'extern "C" {',
            "#endif",
            f"/* For ranks {listed}: those of {name}_rank{ranks[0]} and so on, by the rank of the first tensor that has any. */",
            f"int32_t {name}_plan_tensors(int64_t threads, const anyshape_tensor *inputs, anyshape_tensor *outputs, uint64_t *arena_bytes,",
            f"{' ' * (len(name) + 22)}anyshape_status *status);",
            f"int32_t {name}_run_tensors(const anyshape_pool *pool, void *arena, uint64_t arena_bytes,",
            f"{' ' * (len(name) + 21)}const anyshape_tensor *inputs, anyshape_tensor *outputs, anyshape_status *status);",
            "#ifdef __cplusplus",
            "}",
            "#endif",
            "#endif",
            "",
        ]
    )


def _comment(lines: Sequence[str]) -> str:
    return f"/* {indent(chr(10).join(lines), '   ').lstrip()} */".replace("*/ */", "*/")


def _tensors(m: Interface, tensors: Sequence[InterfaceTensor]) -> list[str]:
    return [
        f"  {k}: {t.name.replace('*/', '* /')}: {t.dtype}[{', '.join(_spelled(m, n) for n in t.shape)}]"
        for k, t in enumerate(tensors)
    ]


def _spelled(m: Interface, n: Size) -> str:
    from anyshape.dims import Dim, substitute, symbol

    return str(substitute(n, {d.symbol: symbol(d.c_name) for d in m.dims}) if isinstance(n, Dim) else n)


def _memory(d: Description) -> list[str]:
    lines = [
        "Bytes of the arena, which must begin at a multiple of 64 bytes. All bits are set where they do not fit 63 bits,",
        "and where a dim is negative.",
    ]
    lines += [line for formula in d.formulas for line in wrap(formula, 120, break_long_words=False)]
    if d.grows:
        lines.append(
            "A run may need more, as elements decide: then it ends with ANYSHAPE_ARENA, and may be repeated with more."
        )
    return lines


def _running(d: Description) -> list[str]:
    lines = [
        "Computes the outputs. Nothing is kept between calls: several threads may call at once, each with an arena of its own.",
        "Memory of outputs must overlap neither inputs nor other outputs. After a code other than 0, what is in them is not defined.",
    ]
    if d.unknown:
        lines.append(
            "For a size that only a run tells: ANYSHAPE_OUTPUT tells the bytes that are needed, and the shape; then run again."
        )
    if d.weight_bytes:
        lines.append("`weights` is the content of the file of weights, at a multiple of 64 bytes, as a mapped file is.")
    return lines
