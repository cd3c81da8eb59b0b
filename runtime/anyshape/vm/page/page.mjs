// The page of `anyshape explain --html`: draws the data that stands beside it. Words of a model are put in as text, never as HTML.

const data = JSON.parse(document.getElementById("data").textContent);
const { symbols, dims, values, graphs } = data;
const at = (id) => document.getElementById(id);
const WIDE = 208, HIGH = 68, ACROSS = 232, DOWN = 104, MARGIN = 20, FAR = 6;
const spelled = (n) => n.toLocaleString("en-US");

/** An element with attributes, listeners (`onclick`) and children, which are elements or text. */
function make(tag, attributes = {}, ...children) {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name.startsWith("on")) one.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) one.setAttribute(name, value === true ? "" : value);
  one.append(...children.filter((c) => c !== null && c !== undefined));
  return one;
}

function draw(tag, attributes = {}, text = "") {
  const one = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  if (text) one.textContent = text;
  return one;
}

// --- sizes

const chosen = new Map(symbols.map((s) => [s.name, BigInt(s.value)]));
let read = evaluator(data.sizes, chosen);
const size = (dim) => read(dims[dim].size);

function bytesText(n) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let power = 0;
  for (let rest = n; rest >= 1000n && power < units.length - 1; rest /= 1000n) power += 1;
  return power ? `${(Number(n) / 1000 ** power).toPrecision(3)} ${units[power]}` : `${n} ${n === 1n ? "byte" : "bytes"}`;
}

/** A dim, which the keyboard reaches where it is not within a box. */
function dim(number, within = null) {
  const { text, origin } = dims[number];
  const choose = (e) => { e.stopPropagation(); e.preventDefault(); chooseDim(number); };
  const press = (e) => { if (e.key === "Enter" || e.key === " ") choose(e); };
  const button = within ? {} : { role: "button", tabindex: 0, onkeydown: press, "aria-label": `${text}, ${data.origins[origin]}` };
  const classes = `dim ${origin}${number === chosenDim ? " chosen" : ""}`;
  return make("span", { class: classes, "data-dim": number, title: `${text}: ${data.origins[origin]}`, onclick: choose, ...button }, text);
}

function type(value, within = null) {
  const parts = [value.dtype];
  if (value.dims) {
    parts.push("[");
    value.dims.forEach((d, k) => parts.push(k ? ", " : "", dim(d, within)));
    parts.push("]");
  }
  return make("span", { class: "type" }, ...parts);
}

const numbers = (value) => (value.dims ? `${value.dims.map((d) => spelled(size(d))).join(" × ") || "scalar"}: ${bytesText(read(value.bytes))}` : "");

function drawSizes() {
  const many = symbols.filter((s) => s.origin === "data").length > 12;
  const rows = (wanted) => make("div", { class: "sizes" }, ...wanted.flatMap(sizeRow));
  at("sliders").append(rows(symbols.filter((s) => !many || s.origin !== "data")));
  if (many) at("sliders").append(make("details", {}, make("summary", {}, "sizes that data decides"), rows(symbols.filter((s) => s.origin === "data"))));
}

function sizeRow(s) {
  const low = Number(s.low ?? 0), high = s.high === null || Number(s.high) > 65536 ? Math.max(1024, 8 * low) : Number(s.high);
  const id = `size-${symbols.indexOf(s)}`;
  const slider = make("input", { type: "range", min: low, max: Math.max(high, low), value: s.value, "aria-label": `size of ${s.name}`, id });
  const number = make("input", { type: "number", min: low, max: s.high, value: s.value, "aria-label": `size of ${s.name}, as a number` });
  const take = (other) => (e) => {
    const text = e.target.value;
    if (!/^-?\d+$/.test(text) || BigInt(text) < BigInt(s.low ?? 0) || (s.high !== null && BigInt(text) > BigInt(s.high))) return;
    other.value = text;
    chosen.set(s.name, BigInt(text));
    requestAnimationFrame(refresh);
  };
  slider.addEventListener("input", take(number));
  number.addEventListener("input", take(slider));
  return [make("label", { for: id }, dim(s.dim)), slider, number, make("span", { class: "soft cause" }, s.cause)];
}

function drawConditions() {
  const refused = data.conditions.filter((c) => !read(c.condition)).map((c) => make("li", {}, c.text));
  at("refused").replaceChildren(...(refused.length ? ["A call with these sizes is refused:", make("ul", {}, ...refused)] : []));
}

// --- the graph

let graph = graphs[0], boxes = [], rightmost = new Map(), chosenBox = null, chosenDim = null, scale = 1;

/** Boxes of a graph: its inputs, then its steps; without those that have no code unless these are asked for. */
function boxesOf(g, every) {
  const entries = g.inputs.map((v) => ({ kind: "entry", title: values[v].name, nodes: [], reads: [], makes: [v] }));
  return [...entries, ...g.steps].map((step, k) => {
    const [column, row] = (every ? g.places : g.brief)[k] ?? [0, 0];
    const dynamic = step.nodes.some((n) => n.dynamic);
    const kind = step.open ? "open" : dynamic ? "dynamic" : step.kind;
    const hidden = !every && !g.brief[k];
    return { step, kind, hidden, number: k - entries.length, x: MARGIN + (column + (data.columns - 1) / 2) * ACROSS, y: MARGIN + row * DOWN };
  });
}

/** What reads from what: past a view that is hidden stands what it is a view of. */
function edgesOf(all) {
  const makers = new Map(), edges = [];
  for (const b of all) {
    for (const v of new Set(b.step.reads)) if (makers.has(v) && !b.hidden) edges.push({ value: v, from: makers.get(v), to: b });
    const source = !b.hidden ? b : b.step.kind === "view" ? makers.get(b.step.reads[0]) : undefined;
    if (source) for (const v of b.step.makes) makers.set(v, source);
  }
  return edges;
}

const isResult = (v) => graph.results.filter(([, r]) => r === v).map(([name]) => name);

/** Draws a graph, and chooses a step of it by its number, or the first kernel. */
function openGraph(g, number = null) {
  graph = g;
  const every = at("every").checked, all = boxesOf(g, every || (number !== null && !g.brief[g.inputs.length + number]));
  boxes = all.filter((b) => !b.hidden);
  at("every").checked = boxes.length === all.length && (every || number !== null);
  const left = boxes.reduce((least, b) => Math.min(least, b.x), Infinity);
  boxes.forEach((b) => { b.x += MARGIN - left; });
  rightmost = new Map();
  boxes.forEach((b) => rightmost.set(b.y, Math.max(b.x, rightmost.get(b.y) ?? 0)));
  const edges = edgesOf(all);
  boxes.forEach((b) => { b.above = []; b.below = []; });
  edges.forEach((e) => { e.to.above.push(e); e.from.below.push(e); });
  const lines = draw("svg"), lit = draw("svg");
  const far = (e) => e.to.y - e.from.y > FAR * DOWN;
  lines.append(draw("path", { d: edges.map((e) => (far(e) ? stubs(e) : curve(e))).join("") }));
  const wide = boxes.reduce((most, b) => Math.max(most, b.x + WIDE), 0) + MARGIN, high = boxes.reduce((most, b) => Math.max(most, b.y + HIGH), 0) + MARGIN;
  for (const s of [lines, lit]) { s.setAttribute("width", wide); s.setAttribute("height", high); s.setAttribute("aria-hidden", "true"); }
  lit.id = "lit";
  at("board").replaceChildren(lines, ...boxes.map(boxElement), lit);
  Object.assign(at("board").dataset, { wide, high });
  zoom(scale);
  at("graphs").value = String(g.number);
  chosenBox = null;
  refreshBoxes();
  const first = boxes.find((b) => b.number === number) ?? boxes.find((b) => b.number >= 0) ?? boxes[0];
  if (first) chooseBox(first, false);
  markDim();
}

/** An edge to the next row goes from middle to middle; a longer one past the boxes between, on their right. */
const curve = ({ from, to }) => {
  const y = from.y + HIGH, v = to.y, x = from.x + WIDE / 2, u = to.x + WIDE / 2;
  if (v - y <= DOWN) return `M${x} ${y}C${x} ${(y + v) / 2} ${u} ${(y + v) / 2} ${u} ${v}`;
  let side = 0;
  for (let row = from.y; row <= v; row += DOWN) side = Math.max(side, (rightmost.get(row) ?? 0) + WIDE + 14);
  const r = from.x + WIDE - 24, s = to.x + WIDE - 24;
  return `M${r} ${y}C${r} ${y + 22} ${side} ${y + 8} ${side} ${y + 34}V${v - 34}C${side} ${v - 8} ${s} ${v - 22} ${s} ${v}`;
};
const stubs = ({ from, to }) => `M${from.x + WIDE - 24} ${from.y + HIGH}v12m-4 0h8M${to.x + WIDE - 24} ${to.y}v-12m-4 0h8`;

function boxElement(b) {
  const { step } = b;
  const first = step.makes.length ? values[step.makes[0]] : null;
  const names = step.makes.flatMap(isResult);
  const count = step.nodes.length > 1 ? `${step.nodes.length} ops` : step.kind === "kernel" ? "" : step.kind === "entry" ? "input" : step.kind;
  b.sizes = make("div", { class: "number" });
  b.element = make("div", {
    class: `step ${b.kind}`, role: "button", tabindex: -1,
    "aria-label": `${step.title}${first ? `, ${plainType(first)}` : ""}`,
    title: step.title, onclick: () => chooseBox(b), onkeydown: (e) => move(e, b),
  },
  make("div", { class: "name" }, step.title), make("span", { class: "count" }, count),
  make("div", {}, ...(first ? [type(first, b)] : []), step.makes.length > 1 ? ` and ${step.makes.length - 1} more` : ""),
  b.sizes);
  b.results = names.length ? `→ ${names.join(", ")}  ` : "";
  b.element.style.left = `${b.x}px`;
  b.element.style.top = `${b.y}px`;
  return b.element;
}

const plainType = (v) => (v.dims ? `${v.dtype}[${v.dims.map((d) => dims[d].text).join(", ")}]` : v.dtype);

function refreshBoxes() {
  for (const b of boxes) b.sizes.textContent = b.results + (b.step.makes.length ? numbers(values[b.step.makes[0]]) : "");
}

function zoom(to) {
  scale = Math.min(2, Math.max(0.2, to));
  const board = at("board");
  board.style.transform = `scale(${scale})`;
  board.style.width = `${board.dataset.wide}px`;
  board.style.height = `${board.dataset.high}px`;
  board.style.marginRight = `${board.dataset.wide * (scale - 1)}px`;
  board.style.marginBottom = `${board.dataset.high * (scale - 1)}px`;
}

/** Arrow keys: up to the first that is read, down to the first reader, left and right in the order of the schedule. */
function move(e, b) {
  const k = boxes.indexOf(b);
  const to = {
    ArrowUp: () => b.above[0]?.from ?? boxes[k - 1], ArrowDown: () => b.below[0]?.to ?? boxes[k + 1],
    ArrowLeft: () => boxes[k - 1], ArrowRight: () => boxes[k + 1],
    Home: () => boxes[0], End: () => boxes.at(-1), Enter: () => b, " ": () => b,
  }[e.key]?.();
  if (to) { e.preventDefault(); chooseBox(to); }
}

function chooseBox(b, focus = true) {
  if (chosenBox) { chosenBox.element.classList.remove("chosen"); chosenBox.element.tabIndex = -1; }
  chosenBox = b;
  b.element.classList.add("chosen");
  b.element.tabIndex = 0;
  if (focus) b.element.focus({ preventScroll: true });
  show(b, focus);
  const lit = at("lit"), every = [...b.above, ...b.below];
  lit.replaceChildren(...every.map((e) => draw("path", { d: curve(e), class: "lit" })));
  lit.append(...labels(b.above, (e) => e.from, b).map((t, k, all) => label(t, b.y - 6 - 12 * (all.length - 1 - k))));
  lit.append(...labels(b.below, () => b, b).map((t, k) => label(t, b.y + HIGH + 13 + 12 * k)));
  drawDetail();
}

/** Types of what edges pass, those alike from one box once, each with the middle of its box. */
function labels(edges, of, b) {
  const counts = new Map();
  for (const e of edges) {
    const key = `${of(e).number} ${plainType(values[e.value])}`, known = counts.get(key);
    if (known) known.values.add(e.value);
    else counts.set(key, { values: new Set([e.value]), type: plainType(values[e.value]), x: b.x + WIDE / 2 + (of(e).x - b.x) / 4 });
  }
  return [...counts.values()].slice(0, 3);
}

const label = (t, y) => draw("text", { x: t.x, y }, t.values.size > 1 ? `${t.values.size} × ${t.type}` : t.type);

/** Scrolls the frame, and nothing else, to a box. */
function show(b, near) {
  const frame = at("frame"), [x, y] = [b.x * scale, b.y * scale], [wide, high] = [frame.clientWidth, frame.clientHeight];
  const inside = x >= frame.scrollLeft && x + WIDE * scale <= frame.scrollLeft + wide && y >= frame.scrollTop && y + HIGH * scale <= frame.scrollTop + high;
  if (inside && near) return;
  frame.scrollTo({ left: x - (wide - WIDE * scale) / 2, top: Math.max(0, y - high / 3) });
}

// --- what a step is

function valueRow(v, links) {
  const value = values[v];
  const name = value.constant ? `constant ${value.name}` : value.name;
  const results = isResult(v).map((n) => ` = result ${n}`).join("");
  return make("li", {}, make("span", { class: "name" }, name), " ", type(value), results, " ", make("span", { class: "soft number" }, numbers(value)), ...links);
}

const link = (b) => make("button", { class: "link", type: "button", onclick: () => chooseBox(b) }, b.step.title);

function drawDetail() {
  const b = chosenBox, { step } = b, k = boxes.indexOf(b);
  const kinds = { entry: "input", view: "view: no code, the same memory", known: "no kernel: its elements follow from sizes", table: "instructions", node: "node" };
  const parts = [
    make("div", { class: "bar" },
      make("button", { type: "button", onclick: () => chooseBox(boxes[Math.max(0, k - 1)]), "aria-label": "step before" }, "‹"),
      make("button", { type: "button", onclick: () => chooseBox(boxes[Math.min(boxes.length - 1, k + 1)]), "aria-label": "next step" }, "›"),
      make("span", { class: "soft" }, b.number >= 0 ? `step ${b.number} of ${graph.steps.length}, ${kinds[step.kind] ?? step.kind}` : "input")),
    make("h3", { class: "name" }, step.title),
  ];
  if (step.open) parts.push(make("p", { class: "why" }, step.open));
  const list = (title, items) => items.length && parts.push(make("h4", {}, title), make("ul", {}, ...items));
  list("reads", [...new Set(step.reads)].map((v) => valueRow(v, b.above.filter((e) => e.value === v).flatMap((e) => [" of ", link(e.from)]))));
  list(b.number < 0 ? "is" : "computes", step.makes.map((v) => valueRow(v, b.below.filter((e) => e.value === v).slice(0, 8).flatMap((e) => [", read by ", link(e.to)]))));
  if (step.operations !== undefined) {
    const operations = read(step.operations), moved = read(step.moved);
    parts.push(make("h4", {}, "work at these sizes"), make("p", {}, `${spelled(operations)} operations, ${bytesText(moved)} read and written`));
  }
  if (step.bodies?.length)
    list("runs", step.bodies.map((g) => make("li", {}, make("button", { class: "link", type: "button", onclick: () => openGraph(graphs[g]) }, graphs[g].title))));
  if (step.nodes.length) {
    parts.push(make("h4", {}, step.nodes.length > 1 ? `${step.nodes.length} ops in one kernel` : "op"));
    const opened = step.nodes.length <= 3;
    parts.push(...step.nodes.map((n) => make("details", { open: opened || Boolean(n.dynamic) },
      make("summary", {}, make("span", { class: "name" }, n.op), n.source ? make("span", { class: "soft" }, ` ${n.source}`) : null),
      n.dynamic ? make("p", { class: "why" }, n.dynamic) : null,
      n.spec ? make("p", { class: "soft" }, `declared at ${n.spec}`) : null,
      n.attributes.length ? make("p", { class: "type" }, n.attributes.join(", ")) : null,
      n.equations?.length ? make("pre", {}, n.equations.join("\n")) : null)));
  }
  if (step.joined?.length) parts.push(make("h4", {}, "one kernel by the rules"), make("p", {}, step.joined.join(", ")));
  list("why another kernel computes", (step.apart ?? []).map(([v, why]) => make("li", {}, make("span", { class: "name" }, values[v].name), `: ${why}`)));
  at("detail").replaceChildren(...parts);
}

// --- dims

function chooseDim(number) {
  chosenDim = chosenDim === number ? null : number;
  markDim();
}

/** Marks a dim wherever it occurs, and says where it comes from. */
function markDim() {
  for (const one of document.querySelectorAll(".dim.chosen, .step.has, rect.has")) one.classList.remove("chosen", "has");
  const bar = at("dimbar");
  bar.hidden = chosenDim === null;
  if (chosenDim === null) return;
  for (const one of document.querySelectorAll(`[data-dim="${chosenDim}"]`)) one.classList.add("chosen");
  const { text, origin, symbols: parts } = dims[chosenDim];
  const has = (d) => d === chosenDim || dims[d].symbols.includes(chosenDim);
  const holders = boxes.filter((b) => b.step.makes.some((v) => values[v].dims?.some(has)));
  holders.forEach((b) => b.element.classList.add("has"));
  document.querySelectorAll("rect[data-of]").forEach((r) => r.classList.toggle("has", has(Number(r.dataset.of))));
  const k = holders.indexOf(chosenBox);
  const go = (to) => () => chooseBox(holders[(to + holders.length) % holders.length]);
  const cause = (d) => symbols.find((s) => s.dim === d)?.cause ?? "";
  bar.replaceChildren(
    make("div", { class: "bar" },
      make("b", { class: "type" }, text), `= ${spelled(size(chosenDim))}`, make("span", { class: `dim ${origin}` }, data.origins[origin]),
      holders.length ? make("button", { type: "button", onclick: go(k - 1), "aria-label": "step before that has it" }, "‹") : null,
      holders.length ? make("button", { type: "button", onclick: go(k + 1), "aria-label": "next step that has it" }, "›") : null,
      make("span", { class: "soft" }, `in results of ${holders.length} of ${boxes.length} steps`),
      make("button", { type: "button", onclick: () => chooseDim(chosenDim) }, "close")),
    ...(cause(chosenDim) ? [make("div", {}, cause(chosenDim))] : []),
    ...parts.map((d) => make("div", {}, dim(d), ` = ${spelled(size(d))}: ${cause(d)}`)));
}

function drawSymbols() {
  const uses = new Map(symbols.map((s) => [s.dim, 0]));
  for (const v of values) for (const d of v.dims ?? []) for (const s of new Set([d, ...dims[d].symbols])) if (uses.has(s)) uses.set(s, uses.get(s) + 1);
  at("symbols").append(...symbols.map((s) => make("tr", {},
    make("td", {}, dim(s.dim)), make("td", {}, data.origins[s.origin]), make("td", {}, s.cause),
    make("td", {}, `${s.low ?? "any"} to ${s.high ?? "any"}`), make("td", { class: "right" }, String(uses.get(s.dim))))));
}

function drawDynamic() {
  const dynamic = graphs.flatMap((g) => g.steps.flatMap((s, k) => s.nodes.filter((n) => n.dynamic || s.open).map((n) => ({ g, k, why: n.dynamic ?? `${s.title}: ${s.open}` }))));
  at("dynamic").append(...(dynamic.length ? dynamic.map(({ g, k, why }) => make("li", {}, make("button", {
    class: "link", type: "button",
    onclick: () => { openGraph(g, k); at("frame").scrollIntoView({ block: "nearest" }); chooseBox(chosenBox); },
  }, why))) : [make("li", {}, "No op: every size follows from the inputs' dims.")]));
}

// --- memory

const plans = graphs.flatMap((g) => (g.memory ?? []).map((m, k) => ({ ...m, graph: k === 0 ? g : null })));
let plan = plans[0], timeline = null;

function drawMemory() {
  const begins = timeline === null;
  if (!plan) { at("memory").replaceChildren(make("p", {}, "There is no plan: ranks that a call tells decide the memory.")); return; }
  timeline = memoryOverTime(plan, values, read);
  const { blocks, top, alive } = timeline, steps = Math.max(1, plan.steps.length), whole = Number(top) || 1;
  const picture = draw("svg", { viewBox: `0 0 ${steps} 1000`, preserveAspectRatio: "none", role: "img", "aria-label": "bytes of each value over the steps" });
  for (const b of blocks) {
    const end = Math.min(b.end, steps - 1), height = 1000 * Number(b.bytes) / whole;
    if (!height) continue;
    const kind = b.result ? "result" : b.what === "scratch" ? "scratch" : "block";
    const one = draw("rect", { x: b.start, width: Math.max(end - b.start + 1, 0.2), y: 1000 - 1000 * Number(b.at) / whole - height, height, class: kind });
    if (b.dim !== undefined) one.dataset.of = b.dim;
    one.append(draw("title", {}, blockText(b)));
    one.addEventListener("click", () => { at("cursor").value = String(b.start); drawCursor(); });
    picture.append(one);
  }
  const points = alive.flatMap((n, k) => [k, k + 1].map((x) => `${x},${1000 - 1000 * Number(n) / whole}`));
  picture.append(draw("polyline", { points: points.join(" ") }), draw("line", { id: "now", y1: 0, y2: 1000 }));
  at("picture").replaceChildren(picture);
  at("axis").replaceChildren(...[top, top / 2n, 0n].map((n) => make("span", {}, bytesText(n))));
  at("cursor").max = String(steps - 1);
  const fullest = alive.indexOf(timeline.most);
  if (begins) at("cursor").value = String(Math.max(fullest, 0));
  at("total").textContent = `Intermediate values: ${spelled(timeline.arena)} bytes in the arena; results: ${spelled(top - timeline.arena)} bytes; `
    + `the most that is in use at one step: ${spelled(timeline.most)} bytes${fullest >= 0 ? `, at step ${fullest}, ${plan.steps[fullest]}` : ""}; weights: ${spelled(BigInt(data.weights))} bytes.`;
  at("held").replaceChildren(...plan.held.map((h) => make("li", {}, `${h.what}: ${spelled(read(h.bytes))} bytes ${h.collected ? "more in each iteration" : "in each of two places, read in one and written in the other"}`)));
  drawCursor();
}

const blockText = (b) => `${b.what}: ${spelled(b.bytes)} bytes${b.dim !== undefined && dims[b.dim].symbols.length ? ` = ${dims[b.dim].text}` : ""}, steps ${b.start} to ${b.end}`;

function drawCursor() {
  const k = Number(at("cursor").value);
  for (const x of ["x1", "x2"]) at("now").setAttribute(x, k + 0.5);
  const now = timeline.blocks.filter((b) => b.start <= k && k <= b.end && b.bytes > 0n).sort((a, b) => (a.bytes < b.bytes ? 1 : a.bytes > b.bytes ? -1 : 0));
  const name = plan.steps[k] ?? "no step";
  const step = graph === plan.graph ? boxes.find((b) => b.number === k) : null;
  at("alive").replaceChildren(
    make("p", {}, `In use at step ${k}, `, step ? link(step) : name, `: ${spelled(timeline.alive[k] ?? 0n)} bytes`),
    make("ul", {}, ...now.slice(0, 10).map((b) => make("li", {}, make("i", { class: b.result ? "result" : b.what === "scratch" ? "scratch" : "block" }), blockText(b)))),
    ...(now.length > 10 ? [make("p", { class: "soft" }, `and ${now.length - 10} smaller`)] : []));
}

// --- the page

function search(e) {
  e.preventDefault();
  const word = at("word").value.toLowerCase();
  const words = (b) => [b.step.title, ...b.step.nodes.flatMap((n) => [n.op, n.source]), ...b.step.makes.map((v) => plainType(values[v]))];
  const hits = word ? boxes.filter((b) => words(b).some((t) => t.toLowerCase().includes(word))) : [];
  boxes.forEach((b) => b.element.classList.toggle("hit", hits.includes(b)));
  at("hits").textContent = word ? `${hits.length} of ${boxes.length}` : "";
  if (hits.length && e.type === "submit") chooseBox(hits[(hits.indexOf(chosenBox) + 1) % hits.length]);
}

function refresh() {
  read = evaluator(data.sizes, chosen);
  refreshBoxes();
  if (chosenBox) drawDetail();
  drawConditions();
  drawMemory();
  markDim();
}

drawSizes();
at("legend").append(...Object.entries(data.origins).filter(([origin]) => dims.some((d) => d.origin === origin)).map(([origin, text]) => make("li", {}, make("span", { class: `dim ${origin}` }, origin === "constant" ? "64" : "dim"), ` ${text}`)));
at("graphs").append(...graphs.map((g) => make("option", { value: g.number }, `${g.title} (${g.steps.length})`)));
at("graphs").addEventListener("change", (e) => openGraph(graphs[Number(e.target.value)]));
at("graphs").hidden = graphs.length < 2;
at("every").addEventListener("change", () => openGraph(graph));
at("find").addEventListener("submit", search);
at("word").addEventListener("input", search);
at("smaller").addEventListener("click", () => zoom(scale / 1.25));
at("larger").addEventListener("click", () => zoom(scale * 1.25));
at("plans").append(...plans.map((m, k) => make("option", { value: k }, m.title)));
at("plans").hidden = plans.length < 2;
at("plans").addEventListener("change", (e) => { plan = plans[Number(e.target.value)]; timeline = null; drawMemory(); });
at("cursor").addEventListener("input", drawCursor);
document.addEventListener("keydown", (e) => { if (e.key === "Escape" && chosenDim !== null) chooseDim(chosenDim); });
drawSymbols();
drawDynamic();
openGraph(graphs[0]);
drawConditions();
drawMemory();
