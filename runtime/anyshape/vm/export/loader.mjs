// Tensors in and out are {data, shape}: a typed array of the dtype (`ARRAYS`), dense, and the sizes of its axes.

/** The typed array of each dtype. Elements of f16 and bf16, and of the floats of 8 bits, are their bits; those of bool are 0 and 1. */
const ARRAYS = {
  f32: Float32Array, f64: Float64Array, i8: Int8Array, i16: Int16Array, i32: Int32Array, i64: BigInt64Array,
  u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, u64: BigUint64Array, bool: Uint8Array, char: Uint32Array,
  f16: Uint16Array, bf16: Uint16Array,
};
const MOST_BYTES = 2 ** 32;
const NUMBERS = Object.fromEntries(STATUSES.map((name, number) => [name, number]));

/** A call that ended with a status other than 0. `status` is its name in the C header, `code` its number. */
export class AnyshapeError extends Error {
  constructor(code, text) {
    super(text);
    this.name = "AnyshapeError";
    this.code = code;
    this.status = STATUSES[code];
  }
}

/** The functions of the models, by name: each takes {input: tensor} and returns {output: tensor}, and throws AnyshapeError; its `plan` runs
 * nothing, and returns the bytes of the arena and the shapes of the outputs, -1 for a size that only a run tells.
 * `module` and `weights`: a URL, a Response, or bytes, where the files are not beside this one. */
export async function load({ module = FILES.module, weights = FILES.weights } = {}) {
  const compiled = await WebAssembly.compile(await bytesOf(module));
  const { exports } = await WebAssembly.instantiate(compiled, { env: MATHEMATICS });
  const instance = { exports, weights: 0, start: exports.__heap_base.value >>> 0 };
  if (FILES.weights) {
    const call = new Call(instance), bytes = new Uint8Array(await bytesOf(weights));
    instance.weights = call.stored(bytes);
    instance.start = call.top;
  }
  const models = Object.entries(MODELS).map(([name, model]) => [name, functionOf(instance, name, model)]);
  return Object.fromEntries(models);
}

function functionOf(instance, name, model) {
  const run = (inputs) => new Call(instance).run(name, model, inputs);
  run.plan = (inputs) => new Call(instance).plan(name, model, inputs);
  return run;
}

async function bytesOf(source) {
  if (source instanceof ArrayBuffer) return source;
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  if (source instanceof Response) return source.arrayBuffer();
  const url = new URL(source, import.meta.url);
  if (url.protocol === "file:" && typeof process !== "undefined") {
    const { readFile } = await import("node:fs/promises");
    return readFile(url);
  }
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url} cannot be read: ${response.status} ${response.statusText}`);
  return response.arrayBuffer();
}

/** One call: memory behind that of the module and of the weights, which the next call uses again. */
class Call {
  constructor({ exports, weights, start }) {
    this.exports = exports;
    this.memory = exports.memory;
    this.weights = weights;
    this.top = start;
    this.status = this.room(STATUS.bytes);
  }

  /** The address of so many bytes. */
  room(bytes) {
    const address = Math.ceil(this.top / ALIGNMENT) * ALIGNMENT, end = address + Math.max(bytes, 1);
    const missing = end - this.memory.buffer.byteLength;
    if (missing > 0) this.grow(end, missing);
    this.top = end;
    return address;
  }

  grow(end, missing) {
    try {
      if (end > MOST_BYTES) throw new RangeError();
      this.memory.grow(Math.ceil(missing / 65536));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw new AnyshapeError(NUMBERS.ANYSHAPE_ARENA, `${end} bytes of memory are needed, and WebAssembly has no more than ` +
        `${Math.min(MOST_BYTES, this.memory.buffer.byteLength)} here`);
    }
  }

  stored(bytes) {
    const address = this.room(bytes.byteLength);
    new Uint8Array(this.memory.buffer, address, bytes.byteLength).set(bytes);
    return address;
  }

  get view() {
    return new DataView(this.memory.buffer);
  }

  plan(name, model, inputs) {
    const { bytes, outputs } = this.prepared(name, this.variant(model, inputs), inputs);
    return { arenaBytes: bytes, shapes: Object.fromEntries(outputs.map((t) => [t.name, this.sizes(t)])) };
  }

  run(name, model, inputs) {
    const variant = this.variant(model, inputs);
    const { bytes, rows, outputs } = this.prepared(name, variant, inputs);
    for (const t of outputs) this.place(t, this.byteCount(t));
    let arena = this.room(bytes), room = bytes;
    const weights = FILES.weights ? [this.weights] : [];
    for (;;) {
      const code = this.called(`${name}_run_tensors`, 0, arena, BigInt(room), ...weights, ...rows);
      if (code === 0) return Object.fromEntries(outputs.map((t) => [t.name, this.result(t)]));
      const needed = Number(this.view.getBigUint64(this.status + STATUS.needed, true));
      const output = this.view.getInt32(this.status + STATUS.output, true);
      if (code === NUMBERS.ANYSHAPE_OUTPUT && needed < MOST_BYTES) this.place(outputs[output], needed);
      else if (code === NUMBERS.ANYSHAPE_ARENA && needed > room && needed < MOST_BYTES) arena = this.room((room = 2 * needed));
      else throw this.failure(code);
    }
  }

  /** The model of the rank of an input, where there are several. */
  variant(model, inputs) {
    if (!model.ranks) return model;
    const { name } = Object.values(model.ranks)[0].inputs[model.ranked];
    return model.ranks[inputs?.[name]?.shape?.length] ?? Object.values(model.ranks)[0];
  }

  /** Stores the inputs and plans: the bytes of the arena, the rows of tensors, the outputs with their shapes. */
  prepared(name, { inputs, outputs }, passed) {
    const names = inputs.map((t) => t.name), unknown = Object.keys(passed ?? {}).find((key) => !names.includes(key));
    if (unknown !== undefined) throw refusal(`${name}: there is no input ${unknown}; there are ${names.join(", ")}`);
    const tensors = inputs.map((t) => demanded(name, t, passed?.[t.name]));
    const rows = [this.row(inputs.length), this.row(outputs.length)];
    inputs.forEach((t, k) => {
      const { data, shape } = tensors[k];
      this.describe(rows[0], k, t, shape.length, this.stored(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)));
      shape.forEach((n, axis) => this.view.setBigInt64(this.shape(rows[0], k) + 8 * axis, BigInt(n), true));
    });
    outputs.forEach((t, k) => this.describe(rows[1], k, t, t.rank, 0));
    const total = this.room(8);
    const code = this.called(`${name}_plan_tensors`, 1n, ...rows, total);
    if (code !== 0) throw this.failure(code);
    const bytes = Number(this.view.getBigUint64(total, true));
    return { bytes, rows, outputs: outputs.map((t, k) => ({ ...t, at: rows[1] + k * TENSOR.bytes })) };
  }

  /** Calls a function, whose last argument is the status; a trap leaves the stack as it was. */
  called(name, ...words) {
    const stack = this.exports.__stack_pointer, top = stack?.value;
    try {
      return this.exports[name](...words, this.status);
    } finally {
      if (stack) stack.value = top;
    }
  }

  failure(code) {
    const length = Number(this.view.getBigUint64(this.status + STATUS.length, true));
    return new AnyshapeError(code, new TextDecoder().decode(new Uint8Array(this.memory.buffer, this.status + STATUS.text, length)));
  }

  row(count) {
    const at = this.room(count * TENSOR.bytes);
    new Uint8Array(this.memory.buffer, at, count * TENSOR.bytes).fill(0);
    return at;
  }

  describe(row, k, { code, bits }, rank, address) {
    const shape = this.room(8 * rank), { view } = this, at = row + k * TENSOR.bytes;
    view.setUint32(at + TENSOR.data, address, true);
    view.setInt32(at + TENSOR.device, 1, true);
    view.setInt32(at + TENSOR.ndim, rank, true);
    view.setUint8(at + TENSOR.code, code);
    view.setUint8(at + TENSOR.bits, bits);
    view.setUint16(at + TENSOR.lanes, 1, true);
    view.setUint32(at + TENSOR.shape, shape, true);
  }

  shape(row, k) {
    return this.view.getUint32(row + k * TENSOR.bytes + TENSOR.shape, true);
  }

  sizes({ at, rank }) {
    const { view } = this, shape = view.getUint32(at + TENSOR.shape, true);
    return Array.from({ length: rank }, (_, axis) => Number(view.getBigInt64(shape + 8 * axis, true)));
  }

  byteCount(t) {
    return this.sizes(t).reduce((count, n) => count * n, t.bits / 8);
  }

  /** Gives an output memory of so many bytes; its shape says so, with 0 for a size that only a run tells. */
  place(t, bytes) {
    const sizes = this.sizes(t), known = sizes.every((n) => n >= 0), address = this.room(known ? bytes : 0), { view } = this;
    view.setUint32(t.at + TENSOR.data, address, true);
    const shape = view.getUint32(t.at + TENSOR.shape, true);
    sizes.forEach((n, axis) => view.setBigInt64(shape + 8 * axis, BigInt(Math.max(n, 0)), true));
  }

  result(t) {
    const address = this.view.getUint32(t.at + TENSOR.data, true), bytes = this.byteCount(t);
    const data = new (arrayOf(t.dtype))(this.memory.buffer.slice(address, address + bytes));
    return { data, shape: this.sizes(t) };
  }
}

function arrayOf(dtype) {
  return ARRAYS[dtype] ?? Uint8Array; // floats of 8 bits
}

function refusal(text) {
  return new AnyshapeError(NUMBERS.ANYSHAPE_TENSOR, text);
}

/** A tensor of the caller, whose array is of the dtype and has as many elements as the shape says. */
function demanded(model, { name, dtype }, tensor) {
  const { data, shape } = tensor ?? {}, of = arrayOf(dtype), what = `${model}: input ${name} must be {data, shape}`;
  if (!(data instanceof of)) throw refusal(`${what} with data a ${of.name}, for ${dtype}, got ${data?.constructor?.name ?? data}`);
  if (!Array.isArray(shape) || !shape.every(Number.isSafeInteger)) throw refusal(`${what} with shape an array of integers, got ${shape}`);
  const count = shape.reduce((product, n) => product * n, 1);
  if (count !== data.length && shape.every((n) => n >= 0))
    throw refusal(`${what} with as many elements as its shape [${shape.join(", ")}] says, ${count}, got ${data.length}`);
  return { data, shape };
}

const scratch = new DataView(new ArrayBuffer(8));

/** A float as a product of an integer and a power of two. */
function parts(x) {
  scratch.setFloat64(0, x);
  const bits = scratch.getBigUint64(0), exponent = Number((bits >> 52n) & 2047n), rest = bits & ((1n << 52n) - 1n);
  const mantissa = exponent ? rest | (1n << 52n) : rest;
  return [x < 0 ? -mantissa : mantissa, Math.max(exponent, 1) - 1075];
}

/** a * b + c, rounded once. */
function fma(a, b, c) {
  if (!Number.isFinite(a * 0 + b * 0) || a === 0 || b === 0) return a * b + c;
  if (!Number.isFinite(c)) return c;
  if (c === 0) return a * b;
  const [[m, e], [n, f], [p, g]] = [a, b, c].map(parts), least = Math.min(e + f, g);
  const sum = ((m * n) << BigInt(e + f - least)) + (p << BigInt(g - least));
  const size = (sum < 0n ? -sum : sum).toString(2).length;
  const dropped = Math.max(size - 53, -1074 - least, 0), shift = BigInt(dropped), half = dropped ? 1n << (shift - 1n) : 0n;
  let quotient = sum >> shift;
  const rest = sum - (quotient << shift);
  if (dropped && (rest > half || (rest === half && quotient & 1n))) quotient += 1n;
  return Number(quotient) * 2 ** (least + dropped);
}

/** The functions of C's library of mathematics that modules import. */
const MATHEMATICS = {
  sin: Math.sin, cos: Math.cos, sinf: (x) => Math.fround(Math.sin(x)), cosf: (x) => Math.fround(Math.cos(x)),
  fmod: (x, y) => x % y, fmodf: (x, y) => Math.fround(x % y), fma,
};
