// The editor: a text area with numbers of lines beside it and marks below it.
export class Editor {
  constructor(area, marks, gutter, changed) {
    Object.assign(this, { area, marks, gutter, findings: [], line: null });
    area.addEventListener("input", () => {
      this.findings = [];
      this.line = null;
      this.draw();
      changed();
    });
    area.addEventListener("scroll", () => this.scroll());
  }

  get text() {
    return this.area.value;
  }

  set text(text) {
    this.area.value = text;
    this.findings = [];
    this.line = null;
    this.draw();
    this.area.scrollTop = this.area.scrollLeft = 0;
  }

  mark(findings) {
    this.findings = findings;
    this.draw();
  }

  // Shows a line, with the columns selected if there are any.
  show(line, col, end) {
    const start = this.start(line);
    const to = this.area.value.indexOf("\n", start);
    const last = to < 0 ? this.area.value.length : to;
    this.line = line;
    this.draw();
    this.area.focus();
    this.area.setSelectionRange(Math.min(start + (col ?? 1) - 1, last), Math.min(start + (end ?? 1) - 1, last));
    const height = parseFloat(getComputedStyle(this.area).lineHeight);
    this.area.scrollTop = Math.max(0, (line - 4) * height);
  }

  start(line) {
    let at = 0;
    for (let k = 1; k < line; k++) {
      const next = this.area.value.indexOf("\n", at);
      if (next < 0) return at;
      at = next + 1;
    }
    return at;
  }

  draw() {
    const lines = this.area.value.split("\n");
    this.gutter.textContent = lines.map((_, k) => k + 1).join("\n");
    this.gutter.parentElement.style.setProperty("--lines", String(lines.length));
    this.marks.replaceChildren(...lines.flatMap((text, k) => [...this.marked(text, k + 1), "\n"]));
    this.scroll();
  }

  marked(text, line) {
    const nodes = [];
    let at = 0;
    const here = this.findings.filter((f) => f.line === line).sort((a, b) => a.col - b.col);
    for (const { col, end } of here) {
      const from = Math.max(at, Math.min(col - 1, text.length));
      const to = Math.max(from, Math.min(end - 1, text.length));
      const mark = document.createElement("mark");
      mark.textContent = text.slice(from, to) || " ";
      nodes.push(text.slice(at, from), mark);
      at = to;
    }
    if (!here.length && line === this.line) {
      const mark = Object.assign(document.createElement("mark"), { className: "line", textContent: text || " " });
      return [mark];
    }
    return [...nodes, text.slice(at)];
  }

  scroll() {
    this.gutter.scrollTop = this.marks.scrollTop = this.area.scrollTop;
    this.marks.scrollLeft = this.area.scrollLeft;
  }
}
