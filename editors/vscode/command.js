// Chooses the command that starts the language server.
//
// In: the setting, the folder of the workspace, and what says whether a file exists. Out: a program and its arguments.
"use strict";

const path = require("node:path");

function serverCommand(setting, folder, exists, platform = process.platform) {
  if (Array.isArray(setting) && setting.length > 0 && setting.every((word) => typeof word === "string")) {
    return { command: setting[0], args: setting.slice(1) };
  }
  const [bin, program] = platform === "win32" ? ["Scripts", "anyshape-gen.exe"] : ["bin", "anyshape-gen"];
  const own = folder === undefined ? undefined : path.join(folder, ".venv", bin, program);
  return { command: own !== undefined && exists(own) ? own : "anyshape-gen", args: ["language-server"] };
}

module.exports = { serverCommand };
