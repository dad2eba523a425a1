// The bench agent as the official TypeScript SDK has it written: `agent()`, handlers by method name, `connect(stream)`.
//
// The SDK is the one that the interop tests install; a module is found from its file's folder, so it is named by path.

import { Readable, Writable } from "node:stream";

import {
  PROTOCOL_VERSION,
  agent,
  methods,
  ndJsonStream,
} from "../../tests/interop/node/node_modules/@agentclientprotocol/sdk/dist/v1/stable/acp.js";

const CHUNK = "the quick brown fox jumps over the lazy dog, ";
const { fs, session: client } = methods.client;
const { session: mine } = methods.agent;

const cancels = new Map();

async function prompt({ params: { sessionId, prompt }, client: editor, signal }) {
  const [work, amount] = prompt[0].text.split(" ");
  const say = () =>
    editor.notify(client.update, {
      sessionId,
      update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: CHUNK } },
    });
  switch (work) {
    case "echo":
      await say();
      break;
    case "stream":
      for (let i = 0; i < Number(amount); i++) await say();
      break;
    case "nested":
      await Promise.all(
        Array.from({ length: Number(amount) }, (_, i) =>
          editor.request(fs.readTextFile, { sessionId, path: `/project/${i}.py` }),
        ),
      );
      break;
    case "hang":
      await new Promise((resolve) => {
        cancels.set(sessionId, resolve);
        signal.addEventListener("abort", resolve, { once: true });
      });
      cancels.delete(sessionId);
      return { stopReason: "cancelled" };
  }
  return { stopReason: "end_turn" };
}

let sessions = 0;

const connection = agent({ name: "bench" })
  .onRequest(methods.agent.initialize, () => ({ protocolVersion: PROTOCOL_VERSION }))
  .onRequest(mine.new, () => ({ sessionId: `session-${sessions++}` }))
  .onRequest(mine.prompt, prompt)
  .onNotification(mine.cancel, ({ params }) => cancels.get(params.sessionId)?.())
  .onRequest("_bench/own", (params) => params, ({ params: { number } }) => ({ number: number + 1 }))
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));

await connection.closed;
