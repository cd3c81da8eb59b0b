// Compiles Python below a folder to bytecode, by the interpreter that the page has: `node compile.mjs PYODIDE FOLDER`.
import { pathToFileURL } from "node:url";

const [pyodidePath, folder] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(`${pyodidePath}/pyodide.mjs`));
const pyodide = await loadPyodide({ indexURL: `${pyodidePath}/` });
pyodide.FS.mkdir("/python");
pyodide.FS.mount(pyodide.FS.filesystems.NODEFS, { root: folder }, "/python");
pyodide.runPython(`
import compileall, py_compile
compileall.compile_dir("/python", quiet=1, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
`);
