/* Between onnxruntime's interface of custom ops and the functions of an exported model. Tables of ops and kernels stand before this text. */

enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2, ORT_NOT_IMPLEMENTED = 9 };

/* The attributes of a node, while a session creates its kernel (`info`) or infers shapes (`shapes`). */
typedef struct { const void *info, *shapes; } Node;

static const void *const *entries;
static void *domain, *memory_info;
static atomic_flag busy = ATOMIC_FLAG_INIT;
static int64_t processors = 1;
static int minor_version;

static int failed(void *status) {
  if (status) ort_ReleaseStatus(status);
  return status != NULL;
}

/* ---- attributes ---- */

/* Reads an attribute of onnxruntime's type number `type`, of at most `bytes` bytes; the bytes that it has, or -1 if there is none. */
static int64_t read_shapes_attribute(Node node, const char *name, int type, void *data, size_t bytes) {
  const void *attribute = NULL;
  size_t size = 0;
  if (failed(ort_ShapeInferContext_GetAttribute(node.shapes, name, &attribute)) || !attribute) return -1;
  if (failed(ort_ReadOpAttr(attribute, type, data, bytes, &size))) return size > bytes ? (int64_t)size : -1;
  return (int64_t)size;
}

static int64_t read_attribute(Node node, const char *name, int type, void *data, size_t bytes) {
  size_t count = 0;
  if (node.shapes) return read_shapes_attribute(node, name, type, data, bytes);
  switch (type) {
    case ATTRIBUTE_INT: return failed(ort_KernelInfoGetAttribute_int64(node.info, name, data)) ? -1 : 8;
    case ATTRIBUTE_FLOAT: return failed(ort_KernelInfoGetAttribute_float(node.info, name, data)) ? -1 : 4;
    case ATTRIBUTE_STRING:
      if (failed(ort_KernelInfoGetAttribute_string(node.info, name, NULL, &count))) return -1;
      if (count <= bytes && failed(ort_KernelInfoGetAttribute_string(node.info, name, data, &count))) return -1;
      return (int64_t)count;
    case ATTRIBUTE_INTS:
      if (failed(ort_KernelInfoGetAttributeArray_int64(node.info, name, NULL, &count))) return -1;
      if (8 * count <= bytes && count && failed(ort_KernelInfoGetAttributeArray_int64(node.info, name, data, &count))) return -1;
      return 8 * (int64_t)count;
    case ATTRIBUTE_FLOATS:
      if (failed(ort_KernelInfoGetAttributeArray_float(node.info, name, NULL, &count))) return -1;
      if (4 * count <= bytes && count && failed(ort_KernelInfoGetAttributeArray_float(node.info, name, data, &count))) return -1;
      return 4 * (int64_t)count;
    default: return -1;
  }
}

/* Whether a node has an attribute of that name, of any type. Kernels read lists of texts since onnxruntime 1.25; before, they have to be
   taken for present, where one is possible. */
static int is_present(Node node, const Attribute *a) {
  static const int types[] = {ATTRIBUTE_INT, ATTRIBUTE_INTS, ATTRIBUTE_FLOAT, ATTRIBUTE_FLOATS, ATTRIBUTE_STRING};
  const void *attribute = NULL;
  int64_t value;
  size_t count = 0;
  if (node.shapes) return !failed(ort_ShapeInferContext_GetAttribute(node.shapes, a->name, &attribute));
  for (size_t k = 0; k < sizeof types / sizeof *types; k++)
    if (read_attribute(node, a->name, types[k], &value, sizeof value) >= 0) return 1;
  if (minor_version < 25) return a->type == ATTRIBUTE_STRINGS;
  return !failed(ort_KernelInfoGetAttributeArray_string(node.info, a->name, NULL, NULL, &count));
}

static int is_value(Node node, const Attribute *a) {
  union { int64_t words[MOST_VALUE_BYTES / 8 + 1]; float numbers[1]; } value;
  int64_t bytes = read_attribute(node, a->name, a->type, &value, MOST_VALUE_BYTES);
  if (bytes < 0 && a->type == ATTRIBUTE_FLOAT) { /* a whole number may be written as an integer */
    bytes = read_attribute(node, a->name, ATTRIBUTE_INT, &value, MOST_VALUE_BYTES);
    if (bytes >= 0) value.numbers[0] = (float)value.words[0], bytes = 4;
  }
  if (bytes < 0) return a->is_default && !is_present(node, a);
  return a->value && bytes == a->bytes && bytes <= MOST_VALUE_BYTES && !memcmp(&value, a->value, (size_t)bytes);
}

static const Choice *choice_of(const Op *op, Node node) {
  for (int32_t c = 0; c < op->choice_count; c++) {
    int32_t k = 0;
    while (k < op->attribute_count && is_value(node, &op->choices[c].attributes[k])) k++;
    if (k == op->attribute_count) return &op->choices[c];
  }
  return NULL;
}

/* ---- what onnxruntime asks of an op ---- */

static const char *op_name(const Op *op) { return op->name; }
static const char *op_provider(const Op *op) { return (void)op, NULL; }
static int op_input_type(const Op *op, size_t k) { return op->inputs[k].type; }
static size_t op_input_count(const Op *op) { return (size_t)op->input_count; }
static int op_output_type(const Op *op, size_t k) { return op->outputs[k].type; }
static size_t op_output_count(const Op *op) { return (size_t)op->output_count; }
static int op_input_optional(const Op *op, size_t k) { return op->inputs[k].optional; }
static int op_output_optional(const Op *op, size_t k) { return op->outputs[k].optional; }
static int op_memory(const Op *op, size_t k) { return (void)op, (void)k, 0; }
static int op_arity(const Op *op) { return (void)op, 1; }

static void *op_create(const Op *op, const void *api, const void *info, void **kernel) {
  (void)api;
  *kernel = (void *)choice_of(op, (Node){info, NULL});
  if (*kernel) return NULL;
  char text[1024];
  snprintf(text, sizeof text, "%s: " LIBRARY " has no kernel for the attributes of this node; it has: %s. Export it with --param.",
           op->name, op->described);
  return ort_CreateStatus(ORT_NOT_IMPLEMENTED, text);
}

static void op_destroy(void *kernel) { (void)kernel; }

/* ---- a call ---- */

typedef struct {
  void *context, *allocator;
  const Choice *choice;
  const Kernel *kernel;
  anyshape_tensor inputs[MOST_TENSORS], outputs[MOST_TENSORS];
  int64_t input_shapes[MOST_TENSORS][MOST_RANK], output_shapes[MOST_TENSORS][MOST_RANK];
  int32_t types[MOST_TENSORS], ranks[MOST_TENSORS]; /* of the op's inputs; type 0: absent */
  const void *values[MOST_TENSORS];
  void *own[MOST_TENSORS]; /* memory of outputs that the node does not have */
  char claimed[MOST_TENSORS];
  size_t output_count;
} Call;

static uint64_t bytes_of(const anyshape_tensor *t) {
  uint64_t size = t->bits / 8u;
  for (int32_t k = 0; k < t->ndim; k++) size *= (uint64_t)t->shape[k];
  return size;
}

static void *read_value(Call *call, int32_t k) {
  void *type = NULL, *status = ort_GetTensorTypeAndShape(call->values[k], &type);
  size_t rank = 0;
  int element = 0;
  if (status) return status;
  if (!(status = ort_GetTensorElementType(type, &element)) && !(status = ort_GetDimensionsCount(type, &rank)) && rank <= MOST_RANK)
    status = ort_GetDimensions(type, call->input_shapes[k], rank);
  ort_ReleaseTensorTypeAndShapeInfo(type);
  call->types[k] = element;
  call->ranks[k] = (int32_t)rank;
  return status;
}

static void *read_inputs(Call *call) {
  const Op *op = call->choice->op;
  size_t count = 0;
  void *status = ort_KernelContext_GetInputCount(call->context, &count);
  for (int32_t k = 0; !status && k < op->input_count; k++) {
    call->types[k] = call->ranks[k] = 0;
    call->values[k] = NULL;
    if ((size_t)k < count) status = ort_KernelContext_GetInput(call->context, (size_t)k, &call->values[k]);
    if (!status && call->values[k]) status = read_value(call, k);
  }
  return status ? status : ort_KernelContext_GetOutputCount(call->context, &call->output_count);
}

static int takes(const Kernel *kernel, const Call *call, int32_t count) {
  for (int32_t k = 0; k < count; k++) {
    const Operand *operand = &kernel->operands[k];
    if (operand->type != call->types[k] || (operand->type && operand->rank != call->ranks[k])) return 0;
    for (int32_t a = 0; operand->type && a < operand->rank; a++)
      if (operand->dims[a] >= 0 && call->input_shapes[k][a] >= 0 && operand->dims[a] != call->input_shapes[k][a]) return 0;
  }
  return 1;
}

static const Kernel *kernel_of(const Choice *choice, const Call *call) {
  for (int32_t k = 0; k < choice->kernel_count; k++) {
    const Kernel *kernel = &choice->kernels[k];
    if ((size_t)kernel->result_count >= call->output_count && takes(kernel, call, choice->op->input_count)) return kernel;
  }
  return NULL;
}

enum { TEXT_BYTES = 1024 };

/* Appends to a text, which is cut at its end. */
static void append(char text[TEXT_BYTES], const char *format, ...) {
  size_t at = strlen(text);
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text + at, TEXT_BYTES - at, format, arguments);
  va_end(arguments);
}

static void *no_kernel(const Call *call) {
  const Op *op = call->choice->op;
  char text[TEXT_BYTES] = "";
  append(text, "%s: " LIBRARY " has no kernel for", op->name);
  for (int32_t k = 0; k < op->input_count; k++) {
    if (!call->types[k]) append(text, "%s %s absent", k ? "," : "", op->inputs[k].name);
    else append(text, "%s %s of rank %d", k ? "," : "", op->inputs[k].name, call->ranks[k]);
  }
  append(text, ", with %d results. Export it with --ranks or --input.", (int)call->output_count);
  return ort_CreateStatus(ORT_NOT_IMPLEMENTED, text);
}

/* Fills the tensors of a kernel; those of inputs have addresses only in a call. */
static void *fill_tensors(Call *call) {
  int32_t at = 0;
  for (int32_t k = 0; k < call->choice->op->input_count; k++) {
    const Operand *operand = &call->kernel->operands[k];
    if (!operand->type) continue;
    anyshape_tensor *t = &call->inputs[at++];
    *t = (anyshape_tensor){NULL, 1, 0, operand->rank, operand->code, operand->bits, 1, call->input_shapes[k], NULL, 0};
    void *status = call->values[k] ? ort_GetTensorMutableData((void *)call->values[k], &t->data) : NULL;
    if (status) return status;
  }
  for (int32_t k = 0; k < call->kernel->result_count; k++) {
    const Result *result = &call->kernel->results[k];
    call->outputs[k] =
        (anyshape_tensor){NULL, 1, 0, result->rank, result->code, result->bits, 1, call->output_shapes[k], NULL, 0};
  }
  return NULL;
}

/* Takes the memory of an output, of the shape that its tensor has. */
static void *claim(Call *call, int32_t k) {
  anyshape_tensor *t = &call->outputs[k];
  void *value = NULL, *status = NULL;
  call->claimed[k] = 1;
  if ((size_t)k < call->output_count) {
    status = ort_KernelContext_GetOutput(call->context, (size_t)k, t->shape, (size_t)t->ndim, &value);
    if (status) return status;
  }
  if (value) return ort_GetTensorMutableData(value, &t->data);
  status = ort_AllocatorAlloc(call->allocator, bytes_of(t) + 1, &call->own[k]);
  t->data = call->own[k];
  return status;
}

static void *as_status(const anyshape_status *status) {
  int refused = status->code == ANYSHAPE_SHAPE || status->code == ANYSHAPE_OVERFLOW || status->code == ANYSHAPE_TENSOR;
  return ort_CreateStatus(refused ? ORT_INVALID_ARGUMENT : ORT_FAIL, status->text);
}

typedef struct { void (*part)(void *, int64_t); void *job; } Parts;

static void each_part(void *parts, size_t k) { ((Parts *)parts)->part(((Parts *)parts)->job, (int64_t)k); }

static void parallel_for(void *context, int64_t count, void (*part)(void *job, int64_t k), void *job) {
  Parts parts = {part, job};
  if (failed(ort_KernelContext_ParallelFor(context, each_part, (size_t)count, 0, &parts)))
    for (int64_t k = 0; k < count; k++) part(job, k);
}

typedef struct { char *block; uint64_t bytes; void *arena; } Arena; /* the arena begins at a multiple of 64 bytes of its block */

static void *grow(const Call *call, Arena *arena, uint64_t bytes) {
  if (arena->block && failed(ort_AllocatorFree(call->allocator, arena->block))) bytes = UINT64_MAX;
  arena->block = NULL;
  if (bytes > UINT64_MAX / 2) return ort_CreateStatus(ORT_FAIL, "the memory of this call does not fit 63 bits");
  void *block = NULL, *status = ort_AllocatorAlloc(call->allocator, (size_t)bytes + 64, &block);
  if (status) return status;
  arena->block = block;
  arena->bytes = bytes;
  arena->arena = arena->block + (64 - (uintptr_t)arena->block % 64) % 64;
  return NULL;
}

/* Runs the kernel. What an output of a size that data decide needs, a first run counts; a second one fills it. */
static void *run(Call *call, Arena *arena) {
  const int32_t count = call->kernel->result_count;
  const anyshape_pool pool = {processors, call->context, parallel_for};
  anyshape_status said;
  void *status = NULL;
  for (;;) {
    int32_t code = call->kernel->run(&pool, arena->arena, arena->bytes, call->inputs, call->outputs, &said);
    if (!code) break;
    if (code == ANYSHAPE_OUTPUT && said.output >= 0 && said.output < count && !call->claimed[said.output])
      status = claim(call, said.output);
    else if (code == ANYSHAPE_ARENA && said.needed > arena->bytes && said.needed < UINT64_MAX / 4)
      status = grow(call, arena, 2 * said.needed);
    else
      status = as_status(&said);
    if (status) return status;
  }
  for (int32_t k = 0; !status && k < count; k++)
    if (!call->claimed[k]) status = claim(call, k);
  return status;
}

static void *plan_and_run(Call *call, Arena *arena) {
  anyshape_status said;
  uint64_t bytes = 0;
  void *status = fill_tensors(call);
  if (status) return status;
  if (call->kernel->plan(processors, call->inputs, call->outputs, &bytes, &said)) return as_status(&said);
  if ((status = grow(call, arena, bytes))) return status;
  for (int32_t k = 0; !status && k < call->kernel->result_count; k++) {
    int is_known = 1;
    for (int32_t a = 0; a < call->outputs[k].ndim; a++)
      if (call->output_shapes[k][a] < 0) call->output_shapes[k][a] = is_known = 0;
    if (is_known) status = claim(call, k);
  }
  return status ? status : run(call, arena);
}

static void *op_compute(void *kernel, void *context) {
  Call call;
  Arena arena = {NULL, 0, NULL};
  call.context = context;
  call.choice = kernel;
  memset(call.claimed, 0, sizeof call.claimed);
  memset(call.own, 0, sizeof call.own);
  void *status = read_inputs(&call);
  if (status) return status;
  if (!(call.kernel = kernel_of(call.choice, &call))) return no_kernel(&call);
  if ((status = ort_KernelContext_GetAllocator(context, memory_info, &call.allocator))) return status;
  status = plan_and_run(&call, &arena);
  if (arena.block) failed(ort_AllocatorFree(call.allocator, arena.block));
  for (int32_t k = 0; k < call.kernel->result_count; k++)
    if (call.own[k]) failed(ort_AllocatorFree(call.allocator, call.own[k]));
  ort_ReleaseAllocator(call.allocator);
  return status;
}

/* ---- shapes, while a model is loaded ---- */

/* A name of a dim that nothing is known of: names that are equal would be dims that are equal. */
static void new_name(char *name, size_t bytes) {
  static atomic_uint count;
  snprintf(name, bytes, "anyshape_%u", atomic_fetch_add(&count, 1));
}

typedef struct { const char *names[MOST_TENSORS][MOST_RANK]; } Names;

static int read_types(Call *call, Names *names) {
  size_t count = 0;
  if (failed(ort_ShapeInferContext_GetInputCount(call->context, &count))) return 0;
  for (int32_t k = 0; k < call->choice->op->input_count; k++) {
    void *type = NULL; /* the context owns it */
    size_t rank = 0;
    int element = 0;
    call->types[k] = call->ranks[k] = 0;
    call->values[k] = NULL;
    if ((size_t)k >= count) continue;
    if (failed(ort_ShapeInferContext_GetInputTypeShape(call->context, (size_t)k, &type)) || !type) return 0;
    if (failed(ort_GetTensorElementType(type, &element)) || failed(ort_GetDimensionsCount(type, &rank))) return 0;
    if (!rank || rank > MOST_RANK) return 0; /* an input of unknown rank has none here, as a scalar has */
    if (failed(ort_GetDimensions(type, call->input_shapes[k], rank))) return 0;
    if (failed(ort_GetSymbolicDimensions(type, names->names[k], rank))) return 0;
    call->types[k] = element;
    call->ranks[k] = (int32_t)rank;
  }
  return 1;
}

/* Sizes of all outputs, where those of all inputs are numbers; -1 where only a run tells them. */
static int plan_shapes(Call *call) {
  uint64_t bytes;
  anyshape_status said;
  for (int32_t k = 0; k < call->choice->op->input_count; k++)
    for (int32_t a = 0; a < call->ranks[k]; a++)
      if (call->input_shapes[k][a] < 0) return 0;
  return !failed(fill_tensors(call)) && !call->kernel->plan(1, call->inputs, call->outputs, &bytes, &said);
}

typedef struct { int64_t number; const char *name; } Known; /* number -1: what the name stands for; without one, anything */

static Known known_size(const Call *call, const Names *names, const Size *size) {
  if (size->input < 0) return (Known){size->number, ""};
  const int64_t number = call->input_shapes[size->input][size->axis];
  const char *name = names->names[size->input][size->axis];
  return number >= 0 ? (Known){number, ""} : (Known){-1, name ? name : ""};
}

/* The broadcast of sizes, each 1 or the same: a number beside others decides, and so does one name of all that are not 1. */
static Known known_axis(const Call *call, const Names *names, const Axis *axis) {
  Known result = {axis->count ? 1 : -1, ""};
  for (int32_t k = 0; k < axis->count; k++) {
    const Known one = known_size(call, names, &axis->sizes[k]);
    if (one.number == 1 || result.number > 1 || result.number == 0) continue;
    if (one.number >= 0 || result.number == 1) result = one;
    else if (strcmp(result.name, one.name)) result.name = "";
  }
  return result;
}

static void set_shape(const Call *call, const Names *names, int32_t k, int planned) {
  const Result *result = &call->kernel->results[k];
  int64_t dims[MOST_RANK];
  const char *spelled[MOST_RANK];
  char new_names[MOST_RANK][32];
  void *type = NULL;
  for (int32_t a = 0; a < result->rank; a++) {
    const int64_t number = planned ? call->output_shapes[k][a] : -1;
    const Known known = number >= 0 ? (Known){number, ""} : known_axis(call, names, &result->axes[a]);
    dims[a] = known.number;
    spelled[a] = known.name;
    if (known.number < 0 && !*known.name) {
      new_name(new_names[a], sizeof new_names[a]);
      spelled[a] = new_names[a];
    }
  }
  if (failed(ort_CreateTensorTypeAndShapeInfo(&type))) return;
  if (!failed(ort_SetDimensions(type, dims, (size_t)result->rank)) &&
      !failed(ort_SetSymbolicDimensions(type, spelled, (size_t)result->rank)))
    failed(ort_ShapeInferContext_SetOutputTypeShape(call->context, (size_t)k, type));
  ort_ReleaseTensorTypeAndShapeInfo(type);
}

/* Says the shapes of outputs as far as those of inputs do. What it does not accept, the call refuses with a text. */
static void *op_infer(const Op *op, void *context) {
  Call call;
  Names names;
  call.context = context;
  call.output_count = 0;
  call.choice = choice_of(op, (Node){NULL, context});
  if (!call.choice || !read_types(&call, &names) || !(call.kernel = kernel_of(call.choice, &call))) return NULL;
  int planned = plan_shapes(&call);
  for (int32_t k = 0; k < call.kernel->result_count; k++) set_shape(&call, &names, k, planned);
  return NULL;
}

/* ---- registration ---- */

/* What a table of another interface would get wrong: a status, and a tensor that is made, read back and released. */
static const char *differs(void) {
  void *status = ort_CreateStatus(ORT_INVALID_ARGUMENT, "anyshape"), *info = NULL, *value = NULL, *type = NULL, *data = NULL;
  float numbers[6] = {0};
  int64_t shape[2] = {2, 3}, dims[2] = {0, 0};
  size_t rank = 0;
  int element[2] = {0, 0}; /* room for what another function would write */
  if (!status) return "CreateStatus";
  int code = ort_GetErrorCode(status);
  if (code != ORT_INVALID_ARGUMENT) return "GetErrorCode";
  ort_ReleaseStatus(status);
  if (ort_CreateCpuMemoryInfo(0, 0, &info) || !info) return "CreateCpuMemoryInfo";
  if (ort_CreateTensorWithDataAsOrtValue(info, numbers, sizeof numbers, shape, 2, 1, &value) || !value)
    return "CreateTensorWithDataAsOrtValue";
  if (ort_GetTensorMutableData(value, &data) || data != numbers) return "GetTensorMutableData";
  if (ort_GetTensorTypeAndShape(value, &type) || !type) return "GetTensorTypeAndShape";
  if (ort_GetTensorElementType(type, element) || element[0] != 1) return "GetTensorElementType";
  if (ort_GetDimensionsCount(type, &rank) || rank != 2) return "GetDimensionsCount";
  if (ort_GetDimensions(type, dims, 2) || dims[0] != 2 || dims[1] != 3) return "GetDimensions";
  ort_ReleaseTensorTypeAndShapeInfo(type);
  ort_ReleaseValue(value);
  ort_ReleaseMemoryInfo(info);
  return NULL;
}

typedef struct { const void *(*GetApi)(uint32_t version); const char *(*GetVersionString)(void); } ApiBase;

/* The refusal of an onnxruntime: by its oldest interface, whose first function makes a status; on standard error where it has none. */
static void *refuse(const ApiBase *base, const char *what) {
  const void *const *oldest = base->GetApi(1);
  char text[512];
  snprintf(text, sizeof text, LIBRARY ": custom ops need onnxruntime 1.%d or a later 1.x; this is %s: %s", ORT_VERSION,
           base->GetVersionString(), what);
  if (oldest) return ((CreateStatus_fn)oldest[0])(ORT_NOT_IMPLEMENTED, text);
  fprintf(stderr, "%s\n", text);
  return NULL;
}

static void *add_ops(void) {
  void *status = NULL;
  if (domain) return NULL;
  if (!memory_info && (status = ort_CreateCpuMemoryInfo(0, 0, &memory_info))) return status;
  if ((status = ort_CreateCustomOpDomain(DOMAIN, &domain))) return status;
  for (size_t k = 0; !status && k < sizeof ops / sizeof *ops; k++) status = ort_CustomOpDomain_Add(domain, &ops[k]);
  return status;
}

__attribute__((visibility("default"))) void *RegisterCustomOps(void *options, const ApiBase *base);

void *RegisterCustomOps(void *options, const ApiBase *base) {
  int major = 0, minor = 0;
  if (sscanf(base->GetVersionString(), "%d.%d", &major, &minor) != 2 || major != 1 || minor < ORT_VERSION)
    return refuse(base, "its version differs");
  const void *const *table = base->GetApi(ORT_VERSION);
  if (!table) return refuse(base, "it does not have that version of the C interface");
  while (atomic_flag_test_and_set(&busy)) {}
  minor_version = minor;
  const int is_other = entries && entries != table;
  if (!entries) entries = table;
  const char *wrong = is_other ? NULL : differs();
  void *status = is_other || wrong ? NULL : add_ops();
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  processors = count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : count;
  atomic_flag_clear(&busy);
  if (is_other) return refuse(base, "another onnxruntime of this process has loaded the library");
  if (wrong) {
    char text[128];
    snprintf(text, sizeof text, "%s of its C interface does something else", wrong);
    return refuse(base, text);
  }
  return status ? status : ort_AddCustomOpDomain(options, domain);
}

__attribute__((destructor)) static void release(void) {
  if (domain) ort_ReleaseCustomOpDomain(domain);
  if (memory_info) ort_ReleaseMemoryInfo(memory_info);
}
