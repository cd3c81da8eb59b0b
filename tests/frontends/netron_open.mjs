// Opens ONNX files by the parsers of netron, without a browser, and says what each has or why it does not open.
//
//     node netron_open.mjs FOLDER_OF_NETRON < files.json      files.json: a list of paths; prints a list of {nodes} or {error}

import * as fs from "node:fs";
import * as path from "node:path";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const load = (name) => import(pathToFileURL(path.join(folder, `${name}.js`)));
globalThis.window = globalThis;
const [view, base] = [await load("view"), await load("base")];

const host = {
  environment: () => undefined,
  require: (id) => load(path.basename(id)),
  asset: async (file) => fs.readFileSync(path.join(folder, file), "utf8"),
};

/** What stands for a file that a user opens; `fetch` is asked for files of weights beside it. */
function context(file) {
  const errors = [];
  const stream = (name) => new base.BinaryStream(new Uint8Array(fs.readFileSync(name)));
  return {
    errors, weights: 0, identifier: path.basename(file), stream: stream(file), entries: new Map(),
    fetch: async (name) => stream(path.join(path.dirname(file), name)),
    asset: host.asset, require: host.require,
    error: (error) => errors.push(error),
  };
}

/** Counts nodes, and reads all that netron would draw: a parser is lazy, and what is wrong may only show in a type or in a tensor. */
async function read(graph, about) {
  let count = 0;
  for (const one of [...graph.inputs, ...graph.outputs]) for (const value of one.value) String(value.type);
  for (const node of graph.nodes) {
    count += 1;
    if (!node.type?.name) throw new Error(`the node ${node.name} has no type`);
    for (const one of [...node.inputs, ...node.outputs])
      for (const value of one.value ?? []) {
        String(value.type);
        if (value.initializer) about.weights += await bytes(value.initializer);
      }
    for (const attribute of node.attributes ?? [])
      if (attribute.type === "graph" && attribute.value) count += await read(attribute.value, about);
  }
  return count;
}

/** The bytes of a tensor's elements, which may be in another file. */
async function bytes(tensor) {
  String(tensor.type);
  if (tensor.peek && !tensor.peek()) await tensor.read();
  return tensor.values?.length ?? 0;
}

async function opened(file) {
  const about = context(file);
  try {
    const model = await new view.ModelFactoryService(host).open(about);
    if (!/^ONNX/.test(model.format)) throw new Error(`it was taken for ${model.format}`);
    if (about.errors.length) throw about.errors[0];
    let nodes = 0;
    for (const graph of [...model.modules, ...(model.functions ?? [])]) nodes += await read(graph, about);
    return { format: model.format, nodes, weights: about.weights };
  } catch (error) {
    return { error: `${error.name}: ${error.message}`, where: String(error.stack).split("\n")[1] };
  }
}

const files = JSON.parse(fs.readFileSync(0, "utf8"));
const answers = [];
for (const file of files) answers.push(await opened(file));
console.log(JSON.stringify(answers));
