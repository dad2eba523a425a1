// Drives one agent through a plan, on the official TypeScript SDK's client, and prints what it sees.
//
// The plan says what each session asks, when and how the client cancels, how it answers (see `plan.js`). Every
// observation is one line of JSON on stdout, in the order things happened; the agent's stderr is this program's.
// It judges nothing: the test that started it does. Resolves with 0 if the plan was carried out to its end.

import { client, methods } from "@agentclientprotocol/sdk";

import { driven, launch } from "./agent.js";
import { Editor } from "./editor.js";
import { observe } from "./observe.js";
import { parsePlan } from "./plan.js";

export async function drive(given, command) {
  const plan = parsePlan(given);
  const agent = launch(command);
  const editor = new Editor(plan);

  const app = editor.handleRequests(client({ name: "interop" }));
  try {
    return await driven(agent, app, run);
  } finally {
    editor.dispose();
  }

  async function run(context) {
    await context.request(methods.agent.initialize, {
      protocolVersion: 1,
      clientInfo: { name: "interop", version: "1" },
      clientCapabilities: {
        fs: { readTextFile: plan.files, writeTextFile: plan.files },
        terminal: plan.terminals,
      },
    });
    // One after the other, so that the test knows them by their order.
    const ids = [];
    for (const _ of plan.sessions) ids.push(await open(context));
    const running = Promise.all(plan.sessions.map((turns, number) => converse(context, ids[number], turns)));
    if (plan.endInputOn) return Promise.race([running, editor.reached(plan.endInputOn)]);
    await running;
    await editor.allReleased();
  }

  async function open(context) {
    const { sessionId } = await context.request(methods.agent.session.new, { cwd: plan.cwd, mcpServers: [] });
    for (const [configId, value] of Object.entries(plan.settings)) {
      await context.request(methods.agent.session.setConfigOption, { sessionId, configId, value });
    }
    return sessionId;
  }

  async function converse(context, sessionId, turns) {
    for (const turn of turns) {
      // The SDK hands updates on beside the answer, so those of the turn before may come after it.
      await new Promise((resolve) => setImmediate(resolve));
      const abort = new AbortController();
      editor.begin(sessionId, turn, (toolCallId) => {
        observe("cancelling", { sessionId, by: turn.cancelBy });
        if (turn.cancelBy === "signal") abort.abort();
        else if (turn.cancelBy === "tool") void context.request("_tool_call/cancel", { sessionId, toolCallId });
        else void context.notify(methods.agent.session.cancel, { sessionId });
      });
      try {
        const answer = await context.request(
          methods.agent.session.prompt,
          { sessionId, prompt: [{ type: "text", text: turn.text }] },
          { cancellationSignal: abort.signal, stopWaitingOnCancel: turn.stopWaiting },
        );
        observe("answer", { sessionId, text: turn.text, stopReason: answer.stopReason });
      } catch (error) {
        observe("refusal", { sessionId, text: turn.text, code: error?.code, message: error?.message });
      }
    }
  }
}
