// Runs the generator in Pyodide, so that the page itself never waits. Messages: `{ id, method, arguments }`, answered by `{ id, ...answer }`;
// while it loads, `{ progress }`, and at last `{ ready }`, or `{ failed }`.
import { loadPyodide } from "./pyodide/pyodide.mjs";

const PYTHON = "/python";
let ask;

async function load() {
  postMessage({ progress: "Loading Python …" });
  const archive = fetch("python.zip").then((response) => {
    if (!response.ok) throw new Error(`python.zip: ${response.status} ${response.statusText}`);
    return response.arrayBuffer();
  });
  const pyodide = await loadPyodide({ indexURL: new URL("pyodide/", import.meta.url).href });
  postMessage({ progress: "Loading the generator …" });
  pyodide.unpackArchive(await archive, "zip", { extractDir: PYTHON });
  pyodide.runPython(`
import sys
sys.path.insert(0, "${PYTHON}")
sys.dont_write_bytecode = True
from pathlib import Path
from anyshape_playground import Playground, answer
playground = Playground(Path("${PYTHON}/library.yaml").read_text())
`);
  const [answer, playground] = ["answer", "playground"].map((name) => pyodide.globals.get(name));
  ask = (request) => JSON.parse(answer(playground, JSON.stringify(request)));
}

self.onmessage = ({ data: { id, ...request } }) => {
  try {
    postMessage({ id, ...ask(request) });
  } catch (error) {  // the interpreter itself has ended, as by a stack that is too deep: the page starts another
    postMessage({ id, failed: String(error?.message ?? error) });
  }
};

load().then(
  () => postMessage({ ready: true }),
  (error) => postMessage({ failed: String(error?.message ?? error) }),
);
