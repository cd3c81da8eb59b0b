// The page: what is asked of the engine when something changes, and where its answers are drawn.
import { Editor } from "./editor.mjs";
import { Engine } from "./engine.mjs";
import { element, tensor } from "./tensors.mjs";

const at = (id) => document.getElementById(id);
const PAUSE = { spec: 300, field: 250, slider: 30 };  // milliseconds without a change before it is asked about
const LARGEST = 16;  // of a slider
const state = { entry: null, op: null, call: null, fields: {}, fills: {}, sizes: {} };
let gallery = [];

// --- the engine: four questions, each of which follows from the answer before it

const STEPS = ["edit", "infer", "compute", "plan"];
const [EDIT, INFER, COMPUTE, PLAN] = STEPS.keys();
const questions = [
  () => ({ text: editor.text }),
  () => ({
    types: values(state.op.inputs.map((i) => i.name), (n) => state.fields[`type ${n}`]),
    params: values(state.op.params.map((p) => p.name), (n) => state.fields[`param ${n}`]),
  }),
  () => ({ sizes: state.sizes, fills: state.fills }),
  () => ({ sizes: state.sizes }),
];
const drawn = [drawOp, drawCall, drawResult, drawPlan];
let next = STEPS.length;
let answered = 0;  // how many steps have an answer that the step after them can follow from
let isRunning = false;

function request(step) {
  next = Math.min(next, engine.isNew ? EDIT : step, answered);
  if (!isRunning) run();
}

async function run() {
  isRunning = true;
  setState("busy");
  while (next < STEPS.length) {
    const step = next++;
    const answer = await engine.ask(STEPS[step], questions[step]());
    if (next <= step) continue;  // something changed meanwhile, so that this answer is old
    const goesOn = drawn[step](answer) && !answer.lost;
    answered = goesOn ? step + 1 : step;
    if (!goesOn) next = STEPS.length;
  }
  isRunning = false;
  setState("ready");
}

function setState(name, text = { busy: "…", ready: "Up to date" }[name]) {
  document.body.dataset.state = name;
  at("status").textContent = text;
}

const engine = new Engine(({ progress, failed }) => {
  if (failed !== undefined) setState("failed", `The playground cannot run: ${failed}`);
  else if (progress !== undefined) setState("loading", progress);
  else setState(isRunning ? "busy" : "ready");
});
const timers = {};

function soon(name, step) {
  clearTimeout(timers[name]);
  timers[name] = setTimeout(() => request(step), PAUSE[name]);
}

function values(names, of) {
  return Object.fromEntries(names.map((n) => [n, of(n) ?? ""]));
}

// --- the spec and its findings

const editor = new Editor(at("spec"), document.querySelector(".marks"), document.querySelector(".gutter"), () => soon("spec", EDIT));
at("spec").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    clearTimeout(timers.spec);
    request(EDIT);
  }
});

function drawOp({ error, findings, ...op }) {
  const faults = findings ?? (error ? [{ line: 1, col: 1, end: 2, text: error }] : []);
  editor.mark(findings ?? []);
  at("findings-title").textContent = faults.length ? `${faults.length} error${faults.length > 1 ? "s" : ""}` : "";
  at("findings").replaceChildren(...faults.map((f) => {
    const button = element("button", { type: "button" }, element("b", {}, `${f.line}:${f.col}`), ` ${f.text}`);
    button.addEventListener("click", () => editor.show(f.line, f.col, f.end));
    return element("li", {}, button);
  }));
  setStale(faults.length > 0);
  if (faults.length) return false;
  state.op = op;
  at("code").textContent = Object.values(op.code).join("\n\n\n");
  drawFields();
  return true;
}

function setStale(isStale) {
  for (const section of document.querySelectorAll(".of-call")) section.classList.toggle("stale", isStale);
}

// --- fields of the call

function drawFields() {
  const { inputs, params, dtypes } = state.op;
  const rows = [
    ...inputs.map((i) => ({
      key: `type ${i.name}`, name: i.name, usual: state.entry.types[i.name] ?? (i.optional ? "" : `${dtype(i.dtype, dtypes)}[n, m]`),
      hint: i.several ? "types of tensors, with ; between them" : i.optional ? "type; may be empty" : "type",
    })),
    ...params.map((p) => ({
      key: `param ${p.name}`, name: p.name, usual: state.entry.params[p.name] ?? "", hint: `${p.kind}${p.default === null ? "" : `, by default ${p.default}`}`,
    })),
  ];
  redraw(at("call"), rows, state.fields, "field", INFER);
}

function dtype(name, dtypes) {
  const allowed = dtypes[name];
  return allowed === undefined ? name : allowed.includes("f32") ? "f32" : allowed[0];
}

// Makes a field for each row, unless they are there; what is written in one stays.
function redraw(form, rows, kept, pause, step) {
  for (const { key, usual } of rows) kept[key] ??= usual;
  const shown = JSON.stringify(rows);
  if (form.dataset.shown === shown) return;
  form.dataset.shown = shown;
  form.replaceChildren(...rows.map(({ key, name, usual, hint }) => {
    const id = `${form.id}-${key.replace(/\W/g, "-")}`;
    const input = element("input", { type: "text", id, value: kept[key], spellcheck: "false", autocomplete: "off", "aria-describedby": `${id}-hint` });
    input.addEventListener("input", () => {
      kept[key] = input.value;
      soon(pause, step);
    });
    onEscape(input, () => {
      kept[key] = input.value = usual;
      request(step);
    });
    return element("div", { class: "field" }, element("label", { for: id }, name), input, element("small", { id: `${id}-hint` }, hint));
  }));
}

function onEscape(input, undo) {
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") undo();
  });
}

// --- the call

function drawCall({ error, ...call }) {
  at("call-error").textContent = error ?? "";
  setStale(error !== undefined);
  if (error !== undefined) return false;
  state.call = call;
  const types = (list) => list.flatMap(({ name, type }, k) => [k ? ", " : "", element("b", {}, name), `: ${type}`]);
  at("signature").replaceChildren(...types(call.inputs), " → ", ...types(call.outputs));
  at("checks").replaceChildren(...(call.checks.length
    ? [element("h3", {}, "Left to be checked when it runs"), element("ul", {}, ...call.checks.map((c) => element("li", {}, c)))]
    : [element("p", { class: "hint" }, "Nothing is left to be checked when it runs.")]));
  at("equations").replaceChildren(...call.equations.map(({ text, line }) => {
    const button = element("button", { type: "button", title: line === null ? "" : `line ${line} of the spec` }, text);
    if (line !== null) button.addEventListener("click", () => editor.show(line));
    return element("li", {}, button);
  }));
  if (!call.equations.length) at("equations").replaceChildren(element("p", { class: "hint" }, "None: the output is the input's memory under another shape."));
  drawSizes();
  return true;
}

function drawSizes() {
  const form = at("sizes");
  for (const { name, low, high } of state.call.dims) {
    const usual = state.entry.dims[name] ?? 4;
    state.sizes[name] = Math.min(Math.max(state.sizes[name] ?? usual, low ?? 0), high ?? Infinity);
  }
  for (const { name } of state.call.inputs) state.fills[name] ??= state.entry.fills[name] ?? "k";
  const shown = JSON.stringify([state.call.dims, state.call.inputs.map((i) => i.name)]);
  if (form.dataset.shown === shown) return;
  form.dataset.shown = shown;
  form.replaceChildren(...state.call.dims.map(slider), ...state.call.inputs.map(fill));
}

function slider({ name, low, high }) {
  const id = `dim-${name}`;
  const output = element("output", { for: id }, String(state.sizes[name]));
  const input = element("input", {
    type: "range", id, min: String(low ?? 0), max: String(Math.min(high ?? LARGEST, Math.max(LARGEST, low ?? 0))), step: "1",
    value: String(state.sizes[name]),
  });
  const change = (value) => {
    state.sizes[name] = Number(value);
    output.textContent = value;
    soon("slider", COMPUTE);
  };
  input.addEventListener("input", () => change(input.value));
  onEscape(input, () => {
    input.value = state.entry.dims[name] ?? 4;
    change(input.value);
  });
  return element("div", { class: "field slider" }, element("label", { for: id }, name), input, output);
}

function fill({ name }) {
  const id = `fill-${name}`;
  const input = element("input", { type: "text", id, value: state.fills[name], spellcheck: "false", autocomplete: "off" });
  input.addEventListener("input", () => {
    state.fills[name] = input.value;
    soon("field", COMPUTE);
  });
  onEscape(input, () => {
    state.fills[name] = input.value = state.entry.fills[name] ?? "k";
    request(COMPUTE);
  });
  return element("div", { class: "field" }, element("label", { for: id }, `${name}[k] =`), input);
}

// --- result and plan

function drawResult({ error, inputs, outputs }) {
  at("result-error").textContent = error ?? "";
  at("outputs").replaceChildren(...(outputs ?? []).map(tensor));
  at("inputs").replaceChildren(...(inputs ?? []).map(tensor));
  return true;
}

function drawPlan({ error, kernels, memory, program }) {
  const open = new Set([...at("plan").querySelectorAll("details[open] > summary")].map((s) => s.textContent));
  const nodes = error === undefined ? [...memoryOf(memory), ...kernelsOf(kernels), folded("The program of the virtual machine", text(program))]
    : [element("p", { class: "error" }, error)];
  at("plan").replaceChildren(...nodes);
  for (const summary of at("plan").querySelectorAll("summary")) summary.parentElement.open = open.has(summary.textContent);
  return true;
}

function memoryOf({ value, error }) {
  if (error !== undefined) return [element("p", { class: "hint" }, `No formula of memory: ${error}`)];
  const rows = value.lines.map((line) => line.split(" = ")).flatMap(([name, formula]) =>
    formula === undefined ? [element("dt", {}, "note"), element("dd", {}, name)] : [element("dt", {}, name), element("dd", {}, formula)]);
  const now = value.bytes === null ? [] : [element("dt", {}, "at these sizes"), element("dd", { id: "bytes" }, `${value.bytes} bytes`)];
  return [element("h3", {}, "Bytes beside inputs and outputs"), element("dl", {}, ...rows, ...now)];
}

function kernelsOf({ value, error }) {
  if (error !== undefined) return [element("p", { class: "error" }, error)];
  if (!value.length) return [element("p", { class: "hint" }, "No kernel: nothing is computed.")];
  return value.flatMap(({ schedule, loops, llvm }, k) => [
    element("h3", {}, `Kernel ${k + 1} of ${value.length}: ${schedule}`),
    element("pre", { tabindex: "0" }, loops),
    folded(`LLVM's text of kernel ${k + 1}`, llvm),
  ]);
}

function folded(title, content) {
  return element("details", {}, element("summary", {}, title), element("pre", { tabindex: "0" }, content));
}

function text({ value, error }) {
  return error === undefined ? value : `none: ${error}`;
}

// --- the gallery

function open(entry) {
  Object.assign(state, { entry, op: null, call: null, fields: {}, fills: {}, sizes: {} });
  for (const form of [at("call"), at("sizes")]) form.dataset.shown = "";
  at("gallery").value = entry.op;
  editor.text = entry.spec;
  request(EDIT);
}

function named(op) {
  return gallery.find((e) => e.op === op) ?? gallery[0];
}

const response = await fetch("gallery.json");
gallery = await response.json();
at("gallery").append(...gallery.map((e) => element("option", { value: e.op }, e.title)));
at("gallery").addEventListener("change", () => {
  location.hash = at("gallery").value;
});
window.addEventListener("hashchange", () => open(named(location.hash.slice(1))));
open(named(location.hash.slice(1)));
