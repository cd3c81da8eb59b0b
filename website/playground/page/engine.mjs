// The worker, and what becomes of questions that it does not answer: it is ended, and another begins.
const PATIENCE = 60_000;  // milliseconds that an answer may take; interpreters have no other way of being stopped

export class Engine {
  // `said`: called with { progress }, { ready } or { failed } of the worker.
  constructor(said) {
    this.said = said;
    this.asked = 0;
    this.start();
  }

  start() {
    this.waiting = new Map();
    this.isNew = true;  // whether nothing was asked yet: a new worker knows no spec
    this.worker = new Worker(new URL("worker.mjs", import.meta.url), { type: "module" });
    this.ready = new Promise((ready) => {
      this.worker.onmessage = ({ data }) => {
        if (data.id !== undefined) return this.answered(data);
        if (data.ready) ready();
        this.said(data);
      };
    });
    this.worker.onerror = (event) => this.said({ failed: event.message || "the worker cannot be loaded" });
  }

  // The answer; `{ error }` where there is none.
  async ask(method, args) {
    await this.ready;
    this.isNew = false;
    const id = ++this.asked;
    return new Promise((resolve) => {
      const late = setTimeout(() => this.lost(`not done after ${PATIENCE / 1000} seconds, and stopped; take smaller sizes`), PATIENCE);
      this.waiting.set(id, { resolve, late });
      this.worker.postMessage({ id, method, arguments: args });
    });
  }

  answered({ id, failed, ...answer }) {
    const { resolve, late } = this.waiting.get(id) ?? {};
    if (resolve === undefined) return;
    if (failed !== undefined) return this.lost(`the interpreter ended: ${failed}`);
    clearTimeout(late);
    this.waiting.delete(id);
    resolve(answer);
  }

  lost(error) {
    const waiting = [...this.waiting.values()];
    this.worker.terminate();
    this.start();
    for (const { resolve, late } of waiting) {
      clearTimeout(late);
      resolve({ error, lost: true });
    }
  }
}
