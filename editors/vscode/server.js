// Starts the language server as a process, and says why it ended.
//
// In: a program, its arguments, and the folder to start it in. Out: the process, once it runs; and what it wrote to standard error.
"use strict";

const { spawn } = require("node:child_process");

const MOST = 4000; // characters kept of standard error

class Server {
  constructor(command, args, folder) {
    this.command = command;
    this.args = args;
    this.folder = folder;
    this.errors = "";
    this.ended = new Promise((_, reject) => {
      this.end = reject;
    });
    this.ended.catch(() => {});
  }

  /** Resolves to the process; rejects where the program cannot be run. `ended` rejects then too, and when the first process ends. */
  start() {
    this.errors = "";
    const child = spawn(this.command, this.args, { cwd: this.folder });
    child.stderr.on("data", (bytes) => {
      this.errors = (this.errors + bytes).slice(-MOST);
    });
    child.once("error", this.end);
    child.once("close", (code) => this.end(new Error(`it ended with code ${code}`)));
    return new Promise((resolve, reject) => {
      child.once("spawn", () => resolve(child));
      child.once("error", reject);
    });
  }

  /** What a user reads where the server did not start: the last line that it wrote, else the error; and a way out. */
  failure(error) {
    const cause = this.errors.trim().split("\n").pop() || (error.code === "ENOENT" ? "there is no such program" : error.message);
    const wayOut = cause.includes("pip install") ? "" : ". pip install 'anyshape[editor]', or set anyshape.command.";
    return `${this.command} did not start: ${cause}${wayOut}`;
  }
}

module.exports = { Server };
