// Starts `anyshape-gen language-server` for specs, which gives errors in place, completion, hover and declarations.
"use strict";

const { existsSync } = require("node:fs");
const vscode = require("vscode");
const { CloseAction, LanguageClient } = require("vscode-languageclient/node");
const { serverCommand } = require("./command");
const { Server } = require("./server");

let client;

/** A client that is silent until its server runs: of what did not start one message says why. */
class Client extends LanguageClient {
  ready = false;

  error(message, data, show) {
    super.error(message, data, this.ready ? show : false);
  }

  async stop(...most) {
    if (this.ready) await super.stop(...most);
  }

  createDefaultErrorHandler(...most) {
    const usual = super.createDefaultErrorHandler(...most);
    const end = { action: CloseAction.DoNotRestart, handled: true };
    return { error: (...about) => usual.error(...about), closed: () => (this.ready ? usual.closed() : end) };
  }
}

async function activate(context) {
  const settings = vscode.workspace.getConfiguration("anyshape");
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const { command, args } = serverCommand(settings.get("command"), folder, existsSync);
  const server = new Server(command, args, folder);
  client = new Client("anyshape", "anyshape specs", () => server.start(), {
    documentSelector: [{ language: "yaml", scheme: "file", pattern: settings.get("specs") }],
    initializationFailedHandler: () => false,
  });
  context.subscriptions.push(client);
  try {
    await Promise.race([client.start(), server.ended]);
    if (!client.isRunning()) await server.ended; // `start` may return although its server has ended
    client.ready = true;
  } catch (error) {
    vscode.window.showErrorMessage(server.failure(error));
  }
}

async function deactivate() {
  await client?.stop();
}

module.exports = { activate, deactivate };
