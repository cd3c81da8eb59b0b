// Colours of code in specs, by VS Code's own engine and its grammar of YAML, whose folder ANYSHAPE_YAML names (make test-vscode).
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const oniguruma = require("vscode-oniguruma");
const { INITIAL, Registry } = require("vscode-textmate");

const folder = process.env.ANYSHAPE_YAML;
const read = (file) => JSON.parse(fs.readFileSync(file, "utf8"));
const own = read(path.join(__dirname, "../syntaxes/code.tmLanguage.json"));
const grammars = { [own.scopeName]: own };
for (const name of fs.readdirSync(folder).filter((n) => n.endsWith(".tmLanguage.json"))) {
  const grammar = read(path.join(folder, name));
  grammars[grammar.scopeName] = grammar;
}

const TEXT = `ops:
  a:
    summary: if the kernel is x
    shape: |
      assert k > 0, "rows if {d}"

      m = k if k else 2
    kernel: "y[*i] = exp(x[*i])"
    define: >
      f(x): x + 1
    examples:
      - {x: [2, 0], shape: [2], error: "if 2"}
  b:
    shape: assert filled <= m, "text"
    reference: "x if y else z"
define: |
  g(x) = 1
language: 1`;

/** Words that are code, by what they are. */
const EXPECTED = {
  "keyword.control.anyshape": ["assert", "if", "else", "assert"],
  "support.function.anyshape": ["exp", "f", "g"],
  "variable.parameter.anyshape": ["*i", "*i"],
  "constant.numeric.anyshape": ["0", "2", "1", "1"],
  "keyword.operator.anyshape": [">", "=", "=", "+", "<=", "="],
};

async function words(injections) {
  const bytes = fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm"));
  await oniguruma.loadWASM(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength)).catch(() => {});
  const registry = new Registry({
    onigLib: Promise.resolve({
      createOnigScanner: (patterns) => new oniguruma.OnigScanner(patterns),
      createOnigString: (text) => new oniguruma.OnigString(text),
    }),
    loadGrammar: async (scope) => grammars[scope],
    getInjections: (scope) => (scope === "source.yaml" ? injections : []),
  });
  const grammar = await registry.loadGrammar("source.yaml");
  const result = {};
  let state = INITIAL;
  for (const line of TEXT.split("\n")) {
    const { tokens, ruleStack } = grammar.tokenizeLine(line, state);
    state = ruleStack;
    for (const { scopes, startIndex, endIndex } of tokens)
      if (scopes.at(-1) in EXPECTED) (result[scopes.at(-1)] ??= []).push(line.slice(startIndex, endIndex));
  }
  return result;
}

async function main() {
  assert.deepStrictEqual(await words([own.scopeName]), EXPECTED);
  assert.deepStrictEqual(await words([]), {}); // YAML alone has none of it
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
