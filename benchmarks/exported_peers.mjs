// Seconds of a call of a module of anyshape and of onnxruntime-web on one thread, in turns: `node exported_peers.mjs FOLDER WEB SAMPLES`.
// FOLDER has model.mjs, model.onnx and call.json, WEB is the folder of the package. Prints JSON: the least seconds of both, and the largest
// difference of their first outputs.

import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const MILLISECONDS = 20;
const [, , folder, web, samples] = process.argv;
const { load } = await import(pathToFileURL(`${folder}/model.mjs`));
const ort = await import(pathToFileURL(`${web}/dist/ort.node.min.mjs`));
ort.env.wasm.numThreads = 1;
const { model } = await load();
const session = await ort.InferenceSession.create(await readFile(`${folder}/model.onnx`), { executionProviders: ["wasm"] });

const tensors = Object.entries(JSON.parse(await readFile(`${folder}/call.json`))).map(([name, { array, data, shape }]) => {
  return { name, shape, data: new globalThis[array](Uint8Array.from(atob(data), (c) => c.charCodeAt(0)).buffer) };
});
const ours = Object.fromEntries(tensors.map(({ name, data, shape }) => [name, { data, shape }]));
const theirs = Object.fromEntries(
  tensors.map(({ name, data, shape }) => [name, new ort.Tensor(data instanceof Float32Array ? "float32" : "int64", data, shape)]),
);
const calls = [async () => model(ours), () => session.run(theirs)], best = [Infinity, Infinity];
const [[one], [other]] = (await Promise.all(calls.map((call) => call()))).map(Object.values);
const error = one.data.reduce((most, x, k) => Math.max(most, Math.abs(Number(x) - Number(other.data[k]))), 0);
for (let sample = 0; sample < Number(samples); sample++) {
  for (const [k, call] of calls.entries()) {
    const start = performance.now();
    let count = 0;
    do await call();
    while (++count && performance.now() - start < MILLISECONDS);
    best[k] = Math.min(best[k], (performance.now() - start) / count / 1000);
  }
}
console.log(JSON.stringify({ seconds: best, error }));
process.exit(0); // threads of theirs would stay
