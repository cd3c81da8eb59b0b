// Calls two exported models as their inputs change: the date reader of examples/dates, and the op of examples/one_op.

import { load as loadDates } from "./dates.mjs";
import { load as loadUnitRows } from "./unit_rows.mjs";

const ALPHABET = " abcdefghijklmnopqrstuvwxyz0123456789äéûç.,-/':;()!", LONGEST = 96, PAD = 0, UNKNOWN = 1, FIRST = 2;
const element = (id) => document.getElementById(id);

/** The ids of the characters of a text, as examples/dates/data.py has them. */
function encoded(text) {
  const letters = [...text.toLowerCase()].slice(0, LONGEST);
  return letters.map((c) => (ALPHABET.includes(c) ? ALPHABET.indexOf(c) + FIRST : UNKNOWN));
}

function greatest(row) {
  return row.indexOf(Math.max(...row));
}

/** The date in each text: texts are rows of one tensor, as long as the longest. */
function datesIn(dates, texts) {
  const rows = texts.map(encoded), length = Math.max(1, ...rows.map((row) => row.length));
  const data = BigInt64Array.from({ length: rows.length * length }, (_, k) => BigInt(rows[Math.floor(k / length)][k % length] ?? PAD));
  const { day, month, year } = dates({ ids: { data, shape: [rows.length, length] } });
  const row = (tensor, k, n) => tensor.data.subarray(k * n, (k + 1) * n);
  return texts.map((_, b) => {
    const digits = [0, 1, 2, 3].map((k) => greatest(row(year, 4 * b + k, 10))).join("");
    const two = (n) => String(n + 1).padStart(2, "0");
    return `${digits}-${two(greatest(row(month, b, 12)))}-${two(greatest(row(day, b, 31)))}`;
  });
}

function numbersIn(text) {
  return text.trim().split(/\s+/).filter(Boolean).map(Number);
}

/** Shows what `answer` returns, or the words of what it throws, below an input; and how long it took. */
function show(target, note, answer) {
  const start = performance.now();
  try {
    target.replaceChildren(...answer());
    note.textContent = `${(performance.now() - start).toFixed(1)} ms`;
    note.className = "note";
  } catch (error) {
    note.textContent = `${error.name}: ${error.message}`;
    note.className = "refused";
  }
}

function readDates(dates) {
  const texts = element("texts").value.split("\n").filter(Boolean);
  show(element("dates"), element("datesNote"), () => {
    const answers = datesIn(dates, texts);
    return texts.map((text, k) => {
      const line = document.createElement("tr");
      for (const content of [text, answers[k]]) line.insertCell().textContent = content;
      return line;
    });
  });
}

function scaleRows(unitRows) {
  const rows = element("rows").value.split("\n").map(numbersIn).filter((row) => row.length);
  const scale = numbersIn(element("scale").value), n = rows[0]?.length ?? 0;
  show(element("unitRows"), element("rowsNote"), () => {
    const x = { data: Float32Array.from(rows.flat()), shape: [rows.length, n] };
    const { y } = unitRows({ x, scale: { data: Float32Array.from(scale), shape: [scale.length] } });
    const line = (k) => Array.from(y.data.subarray(k * n, (k + 1) * n), (value) => value.toFixed(4)).join("  ");
    return [rows.map((_, k) => line(k)).join("\n")];
  });
}

/** Calls `update` now and whenever an input changes. */
function follow(ids, update) {
  for (const id of ids) element(id).addEventListener("input", update);
  update();
}

const { texts, rows, scale } = Object.fromEntries(new URLSearchParams(location.search)); // for links to a page with other inputs
for (const [id, value] of Object.entries({ texts, rows, scale })) if (value !== undefined) element(id).value = value;
const { unit_rows: unitRows } = await loadUnitRows(), { dates } = await loadDates();
follow(["texts"], () => readDates(dates));
follow(["rows", "scale"], () => scaleRows(unitRows));
document.body.dataset.ready = "yes";
