// Drives an agent over HTTP or WebSocket, on the client of the official TypeScript SDK: `node remote.js http|ws URL`.
//
// It converses in each way that an editor does, and prints one line of JSON with what it saw. It judges nothing.

import { client, methods } from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";

const [kind, url, token] = process.argv.slice(2);
const headers = token ? { Authorization: `Bearer ${token}` } : {};
const seen = { said: {}, asked: [] };

function connect() {
  const app = client({ name: "remote" })
    .onNotification(methods.client.session.update, ({ params: { sessionId, update } }) => {
      if (update.content?.text) seen.said[sessionId] = (seen.said[sessionId] ?? "") + update.content.text;
      reached(update.content?.text);
    })
    .onRequest(methods.client.fs.readTextFile, ({ params: { path } }) => {
      seen.asked.push(["read", path]);
      return { content: "x".repeat(300_000) };
    })
    .onRequest(methods.client.session.requestPermission, ({ params: { options } }) => {
      seen.asked.push(["permission", options.length]);
      return { outcome: { outcome: "selected", optionId: options[0].optionId } };
    });
  const stream = kind === "http" ? createHttpStream(url, { headers }) : createWebSocketStream(url);
  return { connection: app.connect(stream), stream };
}

let waiting;
function reached(text) {
  if (text?.includes("begun")) waiting?.();
}
const begun = () => new Promise((resolve) => (waiting = resolve));

async function initialized() {
  const { connection, stream } = connect();
  const agent = connection.agent;
  await agent.request(methods.agent.initialize, {
    protocolVersion: 1,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
  });
  return { agent, connection };
}

const ask = (agent, sessionId, text, options) =>
  agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] }, options);

async function run() {
  const first = await initialized();
  const { agent } = first;
  const { sessionId } = await agent.request(methods.agent.session.new, { cwd: "/project", mcpServers: [] });
  const reasons = {};
  for (const text of ["stream", "read", "permission"]) reasons[text] = (await ask(agent, sessionId, text)).stopReason;

  let ready = begun();
  let turn = ask(agent, sessionId, "hang");
  await ready;
  await agent.notify(methods.agent.session.cancel, { sessionId });
  reasons.cancel = (await turn).stopReason;

  ready = begun();
  const abort = new AbortController();
  turn = ask(agent, sessionId, "hang", { cancellationSignal: abort.signal });
  await ready;
  abort.abort();
  reasons.cancelRequest = (await turn).stopReason;

  // A prompt runs in one session while another one is answered.
  const other = await agent.request(methods.agent.session.new, { cwd: "/project", mcpServers: [] });
  ready = begun();
  turn = ask(agent, sessionId, "hang");
  await ready;
  reasons.beside = (await ask(agent, other.sessionId, "stream")).stopReason;
  await agent.notify(methods.agent.session.cancel, { sessionId });
  await turn;
  await first.connection.close?.();

  const said = seen.said[sessionId];
  seen.said = {};
  const second = await initialized();
  await second.agent.request(methods.agent.session.load, { sessionId, cwd: "/project", mcpServers: [] });
  await new Promise((resolve) => setTimeout(resolve, 50));
  const replayed = seen.said[sessionId];
  reasons.loaded = (await ask(second.agent, sessionId, "stream")).stopReason;
  await second.connection.close?.();
  console.log(JSON.stringify({ reasons, said, replayed, asked: seen.asked }));
}

run().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
