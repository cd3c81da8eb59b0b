// What a user reads of a server that does not start, and that one that runs is a process.
"use strict";

const assert = require("node:assert");
const { Server } = require("../server");

async function failed(command, args) {
  const server = new Server(command, args, undefined);
  try {
    await server.start();
    await server.ended;
  } catch (error) {
    return server.failure(error);
  }
}

const node = process.execPath;
const writes = (text) => ["-e", `console.error(${JSON.stringify(text)}); process.exit(2)`];

async function main() {
  const missing = await failed("no-such-program-here", []);
  assert.ok(missing.startsWith("no-such-program-here did not start: there is no such program. pip install"), missing);
  const hint = await failed(node, writes("warning\nneeds pygls: pip install 'anyshape[editor]'\n"));
  assert.strictEqual(hint, `${node} did not start: needs pygls: pip install 'anyshape[editor]'`);
  const other = await failed(node, writes("Error: x"));
  assert.ok(other.includes("did not start: Error: x. pip install 'anyshape[editor]', or set anyshape.command."), other);
  assert.ok((await failed(node, ["-e", ""])).includes("it ended with code 0. pip install"));
  assert.ok((await failed(node, writes("y".repeat(100000) + " end"))).length < 5000);

  const server = new Server(node, ["-e", "process.stdin.pipe(process.stdout)"], undefined);
  const child = await server.start();
  child.stdin.end("sent");
  const [bytes] = await new Promise((read) => child.stdout.once("data", (...all) => read(all)));
  assert.strictEqual(String(bytes), "sent");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
