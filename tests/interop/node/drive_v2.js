// Drives one agent through a plan on version 2, on the official TypeScript SDK's draft client, and prints what it sees.
//
// The plan has `cwd`, how the client answers permission requests (`permission`: the kind of an option, or "wait" until
// the agent withdraws it), and `steps`, carried out one after the other:
//
//   {"prompt": TEXT, "as": NAME}   send a prompt, and do not wait for its answer
//   {"answer": NAME}               wait for the answer of what has that name
//   {"until": UPDATE}              wait for a new update with at least these members
//   {"abort": NAME}                withdraw a request
//   {"cancel": true}               session/cancel
//   {"request": METHOD, "params": PARAMS, "as": NAME}    any request; the session's id is added
//   {"cancelToolCall": true, "as": NAME}                 tool_call/cancel of the first call that offers it
//   {"cancelTerminal": true, "as": NAME}                 terminal/cancel of the first terminal that offers it
//   {"raw": VALUE}                 write this JSON behind the SDK's back, and wait for what is received next
//
// Every observation is one line of JSON on stdout, in the order things happened. It judges nothing.

import { client, methods } from "@agentclientprotocol/sdk/experimental/v2";

import { driven, launch } from "./agent.js";
import { aborted, observe, within } from "./observe.js";

export async function drive(plan, command) {
  const requests = new Map();
  const updates = [];
  let waiting = () => {};
  let seen = 0;
  let sessionId;

  let arrived = () => {};
  const agent = launch(command, () => arrived());

  const app = client({ name: "interop" })
    .onRequest(methods.client.session.requestPermission, async ({ params, signal }) => {
      if (plan.permission === "wait") {
        await aborted(signal);
        observe("withdrawn", { title: params.title });
        return { outcome: { outcome: "cancelled" } };
      }
      const chosen = params.options.find((option) => option.kind === plan.permission);
      return { outcome: { outcome: "selected", optionId: chosen.optionId } };
    })
    .onNotification(methods.client.session.update, ({ params }) => {
      updates.push(params.update);
      waiting();
    });

  return driven(agent, app, run);

  async function run(context) {
    const info = { name: "interop", version: "1" };
    const answer = await context.request(methods.agent.initialize, { protocolVersion: 2, info, capabilities: {} });
    observe("initialized", { answer });
    ({ sessionId } = await context.request(methods.agent.session.new, { cwd: plan.cwd, mcpServers: [] }));
    observe("session", { sessionId });
    for (const step of plan.steps) await within(carryOut(context, step), JSON.stringify(step));
  }

  async function carryOut(context, step) {
    if (step.prompt !== undefined) {
      const prompt = [{ type: "text", text: step.prompt }];
      send(context, step.as, methods.agent.session.prompt, { sessionId, prompt });
    } else if (step.request !== undefined) {
      send(context, step.as, step.request, { sessionId, ...step.params });
    } else if (step.cancelToolCall) {
      const { toolCallId } = updates.find((update) => update.toolCallId && update.capabilities?.cancel);
      send(context, step.as, methods.agent.toolCall.cancel, { sessionId, toolCallId });
    } else if (step.cancelTerminal) {
      const { terminalId } = updates.find((update) => update.terminalId && update.capabilities?.cancel);
      send(context, step.as, methods.agent.terminal.cancel, { sessionId, terminalId });
    } else if (step.answer !== undefined) {
      await requests.get(step.answer).answered;
    } else if (step.abort !== undefined) {
      requests.get(step.abort).controller.abort();
    } else if (step.cancel) {
      await context.notify(methods.agent.session.cancel, { sessionId });
    } else if (step.raw !== undefined) {
      const next = new Promise((resolve) => (arrived = resolve));
      agent.write(`${JSON.stringify(step.raw)}\n`);
      await next;
    } else {
      while (!found(step.until)) await new Promise((resolve) => (waiting = resolve));
    }
  }

  function send(context, name, method, params) {
    const controller = new AbortController();
    const answered = context.request(method, params, { cancellationSignal: controller.signal }).then(
      (answer) => observe("answer", { name, answer }),
      (error) => observe("refusal", { name, code: error?.code, message: error?.message }),
    );
    requests.set(name, { controller, answered });
  }

  function found(wanted) {
    const place = updates.findIndex((update, number) => number >= seen && matches(update, wanted));
    if (place >= 0) seen = place + 1;
    return place >= 0;
  }
}

function matches(value, wanted) {
  if (wanted === null || typeof wanted !== "object") return value === wanted;
  return Object.entries(wanted).every(([key, member]) => value != null && matches(value[key], member));
}
