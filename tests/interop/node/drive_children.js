// Drives an agent with child sessions, on the unstable client of the official TypeScript SDK, in either version, and
// prints what the SDK's handlers get. It answers the question of a child with its first option, and cancels that child
// then. The plan has `cwd` and `version`.

import { driven, launch } from "./agent.js";
import { observe, within } from "./observe.js";

const SDK = { 1: "@agentclientprotocol/sdk/unstable", 2: "@agentclientprotocol/sdk/experimental/v2/unstable" };

export async function drive({ cwd, version }, command) {
  const { client, methods } = await import(SDK[version]);
  let ended;
  const idle = new Promise((resolve) => (ended = resolve));
  let sessionId;

  const app = client({ name: "interop" })
    .onRequest(methods.client.session.requestPermission, async ({ params }) => {
      observe("asked", { sessionId: params.sessionId });
      setImmediate(() => context.notify(methods.agent.session.cancel, { sessionId: params.sessionId }));
      return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
    })
    .onNotification(methods.client.session.update, ({ params }) => {
      observe("update", params);
      const { sessionUpdate, stopReason } = params.update;
      if (params.sessionId === sessionId && sessionUpdate === "state_update" && stopReason) ended();
    });

  let context;
  return driven(launch(command), app, run);

  async function run(agent) {
    context = agent;
    const about = { name: "interop", version: "1" };
    await context.request(
      methods.agent.initialize,
      version === 2
        ? { protocolVersion: 2, info: about, capabilities: {} }
        : { protocolVersion: 1, clientInfo: about, clientCapabilities: { subagents: {} } },
    );
    ({ sessionId } = await context.request(methods.agent.session.new, { cwd, mcpServers: [] }));
    const prompt = [{ type: "text", text: "delegate" }];
    const answer = await context.request(methods.agent.session.prompt, { sessionId, prompt });
    if (version === 2) await within(idle, "idle");
    observe("ended", { sessionId, answer });
  }
}
