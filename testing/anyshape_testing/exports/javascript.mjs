// Calls functions of exported modules as `javascript.py` says: `serve(address, load)` fetches a call, answers it, and fetches the next one.
// Data without the name of an array are passed as they are.

const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const textOf = (bytes) => btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join(""));

/** The answer to a call `{loader, model, method, inputs}`: tensors, or what it threw. `modules` are those of the calls before. */
async function answer(call, load, modules) {
  try {
    modules[call.loader] ??= await (await load(call.loader)).load();
    const model = modules[call.loader][call.model];
    const tensors = Object.entries(call.inputs).map(([name, { array, data, shape }]) => [
      name,
      { data: array ? new globalThis[array](bytesOf(data).buffer) : data, shape },
    ]);
    const result = (call.plan ? model.plan : model)(Object.fromEntries(tensors));
    if (call.plan) return { plan: result };
    const outputs = Object.entries(result).map(([name, { data, shape }]) => [
      name,
      { data: textOf(new Uint8Array(data.buffer)), shape },
    ]);
    return { outputs: Object.fromEntries(outputs) };
  } catch (error) {
    return { error: { name: error.name, status: error.status ?? null, message: error.message } };
  }
}

export async function serve(address, load) {
  const modules = {};
  for (;;) {
    const next = await fetch(new URL("/next", address));
    if (next.status !== 200) return;
    const body = JSON.stringify(await answer(await next.json(), load, modules));
    await fetch(new URL("/answer", address), { method: "POST", body });
  }
}

if (typeof process !== "undefined") await serve(process.argv[2], (path) => import(path));
