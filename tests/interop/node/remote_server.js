// The official SDK's server for remote clients, over HTTP and WebSocket at one path, with an agent that does as a prompt
// says: "stream N", "ask", "read PATH", "hang". It writes its port, and ends with its input.

import { createServer } from "node:http";

import * as v1 from "@agentclientprotocol/sdk";
import { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { WebSocketServer } from "ws";

const histories = new Map();
const cancels = new Map();

const works = {
  async stream({ say }, count) {
    for (let number = 0; number < Number(count); number += 1) await say(`${number} `);
  },
  async ask({ say, client, sessionId, signal }) {
    const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }];
    const request = { sessionId, toolCall: { toolCallId: "c1", title: "May I?" }, options };
    const { outcome } = await client.request("session/request_permission", request, { cancellationSignal: signal });
    await say(outcome.optionId ?? outcome.outcome);
  },
  async read({ say, client, sessionId }, path) {
    await say((await client.request("fs/read_text_file", { sessionId, path })).content);
  },
  async hang({ say, signal }) {
    await say("begun ");
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
  },
};

const agent = () =>
  v1
    .agent({ name: "remote" })
    .onRequest("initialize", () => ({
      protocolVersion: 1,
      agentInfo: { name: "remote", version: "1" },
      agentCapabilities: { loadSession: true, sessionCapabilities: { close: {} } },
    }))
    .onRequest("session/new", () => {
      const sessionId = `s${histories.size + 1}`;
      histories.set(sessionId, []);
      return { sessionId };
    })
    .onRequest("session/load", async ({ params, client }) => {
      for (const update of histories.get(params.sessionId)) {
        await client.notify("session/update", { sessionId: params.sessionId, update });
      }
      return {};
    })
    .onRequest("session/close", () => ({}))
    .onRequest("session/prompt", async ({ params, client, signal }) => {
      const { sessionId } = params;
      const [name, ...words] = params.prompt[0].text.split(" ");
      const cancel = new AbortController();
      cancels.set(sessionId, cancel);
      const say = async (text) => {
        const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text } };
        histories.get(sessionId).push(update);
        await client.notify("session/update", { sessionId, update });
      };
      await works[name]({ say, client, sessionId, signal: AbortSignal.any([signal, cancel.signal]) }, ...words);
      if (signal.aborted) throw new v1.RequestError(-32800, "withdrawn");
      return { stopReason: cancel.signal.aborted ? "cancelled" : "end_turn" };
    })
    .onNotification("session/cancel", ({ params }) => cancels.get(params.sessionId)?.abort());

const acp = new AcpServer({ createAgent: agent });
const server = createServer(createNodeHttpHandler(acp));
server.on("upgrade", createNodeWebSocketUpgradeHandler(acp, new WebSocketServer({ noServer: true })));
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
