// Sizes at numbers for symbols, exactly: integers of any length, as `anyshape.dims.evaluate` without its limit of 64 bits.
//
// In: the table of `anyshape.dims.record`, in which an entry stands behind those that it is made of. Data of a size or condition is a number
// (as text where a double does not hold it), a truth value, or [number of an entry].

const floored = (a, b) => {
  if (b === 0n) return [0n, 0n];
  let q = a / b, r = a % b;
  if (r !== 0n && (r < 0n) !== (b < 0n)) { q -= 1n; r += b; }
  return [q, r];
};

const OPERATIONS = {
  min: (...xs) => xs.reduce((a, b) => (b < a ? b : a)),
  max: (...xs) => xs.reduce((a, b) => (b > a ? b : a)),
  floordiv: (a, b) => floored(a, b)[0],
  mod: (a, b) => floored(a, b)[1],
  bcast: (a, b) => (a === 1n ? b : a),
  select: (condition, then, otherwise) => (condition ? then : otherwise),
  eq: (a) => a === 0n,
  ge: (a) => a >= 0n,
  not: (a) => !a,
  and: (...xs) => xs.every((x) => x),
  or: (...xs) => xs.some((x) => x),
};

/** Returns a function from data to its value; `values` are numbers for symbols by name. */
export function evaluator(table, values) {
  const numbers = [];
  const read = (data) => (typeof data === "boolean" ? data : Array.isArray(data) ? numbers[data[0]] : BigInt(data));
  for (const [kind, ...parts] of table) {
    if (kind === "symbol") numbers.push(values.has(parts[0]) ? BigInt(values.get(parts[0])) : 0n);
    else if (kind === "+") {
      let total = 0n;
      for (const [factor, ...atoms] of parts) total += atoms.reduce((product, k) => product * numbers[k], BigInt(factor));
      numbers.push(total);
    } else numbers.push(OPERATIONS[kind](...parts.map(read)));
  }
  return read;
}

const largest = (xs) => xs.reduce((a, b) => (b > a ? b : a), 0n);

/** Offsets and the total of values that are laid out together, as `Area.places` has them. */
export function laidOut(area, read) {
  const bytes = area.tenants.map((t) => read(t.bytes));
  const offsets = bytes.map(() => 0n), ends = bytes.map(() => 0n);
  for (const k of area.order) {
    offsets[k] = largest(area.below[k].map((j) => ends[j]));
    ends[k] = offsets[k] + bytes[k];
  }
  return { bytes, offsets, total: largest(area.top.map((k) => ends[k])) };
}

/** The memory of a program at sizes: blocks from step to step, in regions one above the other, then results; bytes by step. */
export function memoryOverTime(memory, values, read) {
  const areas = memory.areas.map((area) => ({ area, ...laidOut(area, read) }));
  const regions = new Map();
  for (const { area, total } of areas) regions.set(area.region, largest([regions.get(area.region) ?? 0n, total]));
  const base = new Map();
  let arena = 0n;
  for (const k of [...regions.keys()].sort((a, b) => a - b)) { base.set(k, arena); arena += regions.get(k); }
  const blocks = [];
  for (const { area, bytes, offsets } of areas)
    area.tenants.forEach((t, k) =>
      blocks.push({ what: t.what, start: t.start, end: t.end, at: base.get(area.region) + offsets[k], bytes: bytes[k], dim: t.dim }));
  const last = memory.steps.length - 1;
  let top = arena;
  for (const { value, start, name } of memory.results) {
    const bytes = read(values[value].bytes);
    blocks.push({ what: `result ${name}`, start, end: Math.max(last, start), at: top, bytes, result: true });
    top += bytes;
  }
  const change = Array.from({ length: last + 3 }, () => 0n);
  for (const b of blocks) { change[b.start] += b.bytes; change[b.end + 1] -= b.bytes; }
  const alive = [];
  let now = 0n;
  for (let k = 0; k <= last; k++) alive.push((now += change[k]));
  return { blocks, arena, top, alive, most: largest(alive) };
}
