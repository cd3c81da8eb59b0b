// Which command starts the language server.
"use strict";

const assert = require("node:assert");
const { serverCommand } = require("../command");

const everywhere = () => true;
const nowhere = () => false;
assert.deepStrictEqual(serverCommand(["python", "-m", "x"], "/w", everywhere), { command: "python", args: ["-m", "x"] });
assert.strictEqual(serverCommand([], "/w", everywhere, "linux").command, "/w/.venv/bin/anyshape-gen");
assert.ok(serverCommand([], "/w", everywhere, "win32").command.endsWith("anyshape-gen.exe"));
assert.deepStrictEqual(serverCommand([], "/w", nowhere, "linux"), { command: "anyshape-gen", args: ["language-server"] });
assert.strictEqual(serverCommand([], undefined, everywhere).command, "anyshape-gen");
for (const wrong of ["rm", null, undefined, {}, [1]]) {
  assert.strictEqual(serverCommand(wrong, undefined, nowhere).command, "anyshape-gen");
}
