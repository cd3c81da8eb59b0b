// Tensors as tables with a colour for each element: the last two axes of each, side by side for the others.
const MOST = { slices: 12, rows: 24, columns: 24 };

export function element(name, attributes = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key in node && typeof value !== "string") node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((c) => c !== null));
  return node;
}

export function tensor({ name, dtype, shape, data }) {
  const title = element("h3", {}, `${name}: ${dtype}[${shape.join(", ")}]`);
  if (!data.length) return element("div", { class: "tensor" }, title, element("p", { class: "hint" }, "no elements"));
  const [rows, columns] = shape.length > 1 ? shape.slice(-2) : [1, shape[0] ?? 1];
  const leading = shape.slice(0, -2);
  const count = data.length / (rows * columns);
  const largest = data.reduce((most, v) => (typeof v === "number" && Number.isFinite(v) ? Math.max(most, Math.abs(v)) : most), 1e-300);
  const slices = Array.from({ length: Math.min(count, MOST.slices) }, (_, k) =>
    slice(`${name}${label(k, leading)}`, data.slice(k * rows * columns, (k + 1) * rows * columns), columns, largest, leading.length > 0));
  const cut = count > MOST.slices || rows > MOST.rows || columns > MOST.columns;
  return element("div", { class: "tensor" }, title, element("div", { class: "slices" }, ...slices),
    cut ? element("p", { class: "hint" }, "the first of them are shown") : null);
}

function label(k, leading) {
  const at = [];
  for (const n of [...leading].reverse()) {
    at.unshift(k % n);
    k = Math.floor(k / n);
  }
  return at.length ? `[${at.join(", ")}]` : "";
}

function slice(name, data, columns, largest, isCaptioned) {
  const shown = Math.min(columns, MOST.columns);
  const head = element("tr", {}, element("th", {}), ...Array.from({ length: shown }, (_, k) => element("th", { scope: "col" }, String(k))));
  const rows = [];
  for (let at = 0; at < data.length && rows.length < MOST.rows; at += columns) {
    rows.push(element("tr", {}, element("th", { scope: "row" }, String(rows.length)),
      ...data.slice(at, at + shown).map((v) => cell(v, largest))));
  }
  const caption = isCaptioned ? element("caption", {}, name) : null;
  return element("table", { "aria-label": name }, caption, element("thead", {}, head), element("tbody", {}, ...rows));
}

function cell(v, largest) {
  const number = typeof v === "boolean" ? Number(v) : v;
  const isOdd = typeof number !== "number";
  const node = element("td", { class: isOdd ? "odd" : number < 0 ? "below" : "above", title: String(v) }, spelled(v));
  node.style.setProperty("--share", isOdd ? "0" : String(Math.min(1, Math.abs(number) / Math.max(largest, typeof v === "boolean" ? 1 : 0))));
  return node;
}

export function spelled(v) {
  if (typeof v !== "number" || Number.isInteger(v)) return String(v);
  const size = Math.abs(v);
  return size >= 1e5 || size < 1e-3 ? v.toExponential(1) : String(Number(v.toPrecision(4)));
}
