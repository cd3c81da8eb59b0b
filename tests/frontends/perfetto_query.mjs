// Loads a trace into Perfetto's trace processor, as its page does, and prints what queries in SQL answer.
//
//     node perfetto_query.mjs FOLDER_OF_THE_TRACE_PROCESSOR trace.json < queries.json
//
// queries.json: an object of queries; prints one of lists of rows. The folder has the worker of Perfetto's page (WebAssembly), and what
// speaks with it. The worker runs here as a script, with what it needs of a browser.

import * as fs from "node:fs";
import * as path from "node:path";
import { pathToFileURL } from "node:url";
import * as vm from "node:vm";

const [folder, file] = process.argv.slice(2);
const { EngineBase } = await import(pathToFileURL(path.join(folder, "engine.mjs")));

/** A file of the folder, as a worker fetches it. */
class FileRequest {
  open(method, name) {
    this.name = path.basename(name);
  }
  send() {
    this.response = fs.readFileSync(path.join(folder, this.name)).buffer;
  }
}

/** WebAssembly without 64-bit memories, which the folder has no code for: the worker tries a module of one such memory, its section 5. */
class Module32 extends WebAssembly.Module {
  constructor(bytes) {
    if (bytes[8] === 5 && bytes[11] === 4) throw new WebAssembly.CompileError("no 64-bit memories");
    super(bytes);
  }
}

function startWorker(port) {
  WebAssembly.Module = Module32;
  console.log = console.warn = console.error;
  Object.assign(globalThis, { self: globalThis, XMLHttpRequest: FileRequest, WorkerGlobalScope: class {}, location: { href: "" } });
  vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.node.js"), "utf8"));
  globalThis.onmessage({ data: port });
}

class Engine extends EngineBase {
  mode = "WASM";
  id = "test";
  constructor(port) {
    super();
    this.port = port;
    port.on("message", (bytes) => this.onRpcResponseBytes(bytes));
  }
  rpcSendRequestBytes(bytes) {
    this.port.postMessage(bytes);
  }
}

const { port1, port2 } = new MessageChannel();
startWorker(port1);
const engine = new Engine(port2);
await new Promise(setImmediate); // the worker's promises are kept by then
await engine.parse(new Uint8Array(fs.readFileSync(file)));
await engine.notifyEof();
const answers = {};
for (const [name, sql] of Object.entries(JSON.parse(fs.readFileSync(0, "utf8")))) {
  const result = await engine.query(sql);
  answers[name] = [];
  for (const row = result.iter({}); row.valid(); row.next())
    answers[name].push(Object.fromEntries(result.columns().map((column) => [column, row.get(column)])));
}
const text = JSON.stringify(answers, (_, value) => (typeof value === "bigint" ? Number(value) : value));
process.stdout.write(text, () => process.exit(0));
