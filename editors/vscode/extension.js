// Starts `anyshape-gen language-server` for specs, which gives errors in place, completion, hover and declarations.
"use strict";

const { existsSync } = require("node:fs");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");
const { serverCommand } = require("./command");

let client;

async function activate(context) {
  const settings = vscode.workspace.getConfiguration("anyshape");
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  // a folder that is not trusted must not choose a program
  const own = vscode.workspace.isTrusted ? folder : undefined;
  const server = serverCommand(settings.get("command"), own, existsSync);
  const documentSelector = [{ language: "yaml", scheme: "file", pattern: settings.get("specs") }];
  client = new LanguageClient("anyshape", "anyshape specs", { run: server, debug: server }, { documentSelector });
  context.subscriptions.push(client);
  try {
    await client.start();
  } catch (error) {
    vscode.window.showWarningMessage(
      `${server.command} did not start: ${error.message}. pip install 'anyshape[editor]', or set anyshape.command.`,
    );
  }
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
