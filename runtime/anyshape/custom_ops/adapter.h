/* The tables of a library of custom ops, and the functions that onnxruntime calls. */

typedef void (*Function)(void);
typedef struct Op Op;

enum { ATTRIBUTE_INT = 1, ATTRIBUTE_INTS, ATTRIBUTE_FLOAT, ATTRIBUTE_FLOATS, ATTRIBUTE_STRING, ATTRIBUTE_STRINGS };

/* The value that an attribute has to have. NULL: it has to be absent. `is_default`: it may be absent. */
typedef struct { const char *name; int type, is_default; const void *value; int64_t bytes; } Attribute;

/* An operand of a kernel. Type 0: it is absent. A dim is -1 where any size will do. */
typedef struct { int32_t type, rank; uint8_t code, bits; const int64_t *dims; } Operand;

/* A size: a number, or that of an axis of an input where `input` is not negative. */
typedef struct { int64_t number; int32_t input, axis; } Size;

/* An axis of a result: the broadcast of sizes. None are said where only the plan knows it. */
typedef struct { const Size *sizes; int32_t count; } Axis;
typedef struct { int32_t rank; uint8_t code, bits; const Axis *axes; } Result;

typedef struct {
  const Operand *operands;
  const Result *results;
  int32_t result_count;
  int32_t (*plan)(int64_t, const anyshape_tensor *, anyshape_tensor *, uint64_t *, anyshape_status *);
  int32_t (*run)(const anyshape_pool *, void *, uint64_t, const anyshape_tensor *, anyshape_tensor *, anyshape_status *);
} Kernel;

/* The kernels for one choice of values of all attributes. */
typedef struct { const Op *op; const Attribute *attributes; const Kernel *kernels; int32_t kernel_count; } Choice;

typedef struct { const char *name; int32_t type, optional; } Parameter;

/* An op for one choice of element types. It begins as onnxruntime's `OrtCustomOp` of version 17 does. */
struct Op {
  uint32_t version;
  Function functions[21];
  const char *name, *described;
  const Parameter *inputs, *outputs;
  int32_t input_count, output_count, attribute_count, choice_count;
  const Choice *choices;
};

static const char *op_name(const Op *op);
static const char *op_provider(const Op *op);
static int op_input_type(const Op *op, size_t k);
static size_t op_input_count(const Op *op);
static int op_output_type(const Op *op, size_t k);
static size_t op_output_count(const Op *op);
static int op_input_optional(const Op *op, size_t k);
static int op_output_optional(const Op *op, size_t k);
static int op_memory(const Op *op, size_t k);
static int op_arity(const Op *op);
static void *op_create(const Op *op, const void *api, const void *info, void **kernel);
static void op_destroy(void *kernel);
static void *op_compute(void *kernel, void *context);
static void *op_infer(const Op *op, void *context);

#define AS_FUNCTION(f) ((Function)(f))
#define OP_FUNCTIONS(infer) { \
    NULL, AS_FUNCTION(op_name), AS_FUNCTION(op_provider), AS_FUNCTION(op_input_type), AS_FUNCTION(op_input_count), \
    AS_FUNCTION(op_output_type), AS_FUNCTION(op_output_count), NULL, AS_FUNCTION(op_destroy), AS_FUNCTION(op_input_optional), \
    AS_FUNCTION(op_output_optional), AS_FUNCTION(op_memory), AS_FUNCTION(op_arity), AS_FUNCTION(op_arity), AS_FUNCTION(op_arity), \
    AS_FUNCTION(op_arity), AS_FUNCTION(op_create), AS_FUNCTION(op_compute), AS_FUNCTION(infer), NULL, NULL, \
  }
