// What an editor does for an agent: files, permissions and terminals, for real, with cancels where the plan has them.

import { readFile, writeFile } from "node:fs/promises";

import { RequestError, methods } from "@agentclientprotocol/sdk";

import { aborted, observe, within } from "./observe.js";
import { Terminals } from "./terminals.js";

const { fs, session, terminal } = methods.client;

export class Editor {
  #plan;
  #turns = new Map();
  #reached = new Map();
  #terminals = new Terminals();

  constructor(plan) {
    this.#plan = plan;
  }

  // The turn that runs in a session from now on, and how to cancel it.
  begin(sessionId, turn, cancel) {
    this.#turns.set(sessionId, { ...turn, cancel, cancelled: false });
  }

  // Resolves when the agent has come to this point for the first time.
  reached(point) {
    return new Promise((resolve) => this.#reached.set(point, resolve));
  }

  // Resolves when the agent has released every terminal.
  allReleased() {
    return this.#terminals.allReleased();
  }

  dispose() {
    observe("disposed", { unreleased: this.#terminals.dispose() });
  }

  handleRequests(app) {
    const answers = {
      [fs.readTextFile]: ({ path }) => readFile(path, "utf8").then((content) => ({ content })),
      [fs.writeTextFile]: ({ path, content }) => writeFile(path, content).then(() => ({})),
      [session.requestPermission]: ({ options }) => this.#decide(options),
      [terminal.create]: (params) => this.#terminals.create(params),
      [terminal.output]: ({ terminalId }) => this.#terminals.output(terminalId),
      [terminal.waitForExit]: ({ terminalId }) => this.#terminals.waitForExit(terminalId),
      [terminal.kill]: ({ terminalId }) => this.#terminals.kill(terminalId),
      [terminal.release]: ({ terminalId }) => this.#terminals.release(terminalId),
    };
    for (const [method, answer] of Object.entries(answers)) {
      app.onRequest(method, (call) => this.#serve(method, call, answer));
    }
    return app.onNotification(session.update, ({ params: { sessionId, update } }) => {
      this.#trigger(update.sessionUpdate, sessionId, update.toolCallId);
    });
  }

  async #serve(method, { params, requestId, signal }, answer) {
    const turn = this.#trigger(method, params.sessionId, params.toolCall?.toolCallId);
    const withdrawn = aborted(signal).then(() => observe("withdrawn", { method, requestId }));
    if (turn?.cancelOn !== method) return Promise.race([answer(params), withdrawn.then(refuse)]);
    await within(withdrawn, `the withdrawal of ${method}`);
    return turn.lateAnswer ? answer(params) : refuse();
  }

  // Cancels the session's turn if the plan says to do it at this point, once.
  #trigger(point, sessionId, toolCallId) {
    this.#reached.get(point)?.();
    const turn = this.#turns.get(sessionId);
    if (turn?.cancelOn === point && !turn.cancelled) {
      turn.cancelled = true;
      turn.cancel(toolCallId);
    }
    return turn;
  }

  #decide(options) {
    const { permission } = this.#plan;
    if (permission === "error") throw RequestError.internalError();
    if (permission === "cancelled") return { outcome: { outcome: "cancelled" } };
    const chosen = options.find(({ kind }) => kind === permission);
    return { outcome: { outcome: "selected", optionId: chosen.optionId } };
  }
}

function refuse() {
  throw RequestError.requestCancelled();
}
