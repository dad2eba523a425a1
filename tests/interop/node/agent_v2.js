// An agent on the official SDK that speaks version 2 of the protocol, and version 1 to clients that ask for it.
//
// A prompt says what to do: "stream N", "ask", "command", "tool", "hang", "fail", "hold", "die". A prompt that begins
// with "late" is answered before its message is part of the conversation. `AGENT_VERSIONS=2`
// leaves version 1 out.

import { Readable, Writable } from "node:stream";

import * as v1 from "@agentclientprotocol/sdk";
import * as v2 from "@agentclientprotocol/sdk/experimental/v2";

const info = { name: "v2-agent", version: "1" };
const sessions = new Map();
let made = 0;

class Session {
  constructor(id, cwd, client) {
    this.id = id;
    this.cwd = cwd;
    this.client = client;
    this.history = [];
    this.running = null;
    this.count = 0;
  }

  async tell(update) {
    if (!["state_update"].includes(update.sessionUpdate)) this.history.push(update);
    await this.client.notify("session/update", { sessionId: this.id, update });
  }

  id_for(what) {
    this.count += 1;
    return `${what}${this.count}`;
  }

  say(text, messageId) {
    const content = { type: "text", text };
    return this.tell({ sessionUpdate: "agent_message_chunk", messageId, content });
  }

  state(state, more = {}) {
    return this.tell({ sessionUpdate: "state_update", state, ...more });
  }

  cancel() {
    this.running?.abort();
  }
}

function aborted(signal) {
  return new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
}

const works = {
  async stream(session, _signal, count) {
    const message = session.id_for("a");
    const words = Array.from({ length: Number(count) }, (_, number) => `${number} `);
    for (const word of words) await session.say(word, message);
    const content = [{ type: "text", text: words.join("") }];
    await session.tell({ sessionUpdate: "agent_message", messageId: message, content });
  },

  async ask(session, signal) {
    await session.state("requires_action");
    const toolCall = { toolCallId: "c1", title: "Remove", kind: "delete" };
    await session.tell({ sessionUpdate: "tool_call_update", ...toolCall });
    await session.answered({ type: "tool_call", toolCall }, signal);
  },

  async command(session, signal) {
    await session.state("requires_action");
    await session.answered({ type: "command", command: "ls -a", cwd: session.cwd }, signal);
  },

  async tool(session) {
    const call = { sessionUpdate: "tool_call_update", toolCallId: "c2" };
    const content = (text) => ({ type: "content", content: { type: "text", text } });
    await session.tell({ ...call, title: "Search", kind: "search", status: "in_progress", capabilities: { cancel: {} } });
    for (const text of ["one", "two"]) {
      await session.tell({ sessionUpdate: "tool_call_content_chunk", toolCallId: "c2", content: content(text) });
    }
    const entries = [{ content: "look", priority: "low", status: "completed" }];
    await session.tell({ sessionUpdate: "plan_update", plan: { type: "items", planId: "p1", entries } });
    await session.tell({ sessionUpdate: "terminal_update", terminalId: "t1", command: "ls" });
    await session.tell({ ...call, status: "cancelled", capabilities: null });
  },

  async dig(session, signal) {
    const call = { sessionUpdate: "tool_call_update", toolCallId: "c3" };
    session.digging = new AbortController();
    await session.tell({ ...call, title: "Dig", status: "in_progress", capabilities: { cancel: {} } });
    await Promise.race([aborted(session.digging.signal), aborted(signal)]);
    session.digging = null;
    await session.tell({ ...call, status: "cancelled", capabilities: null });
    await session.say("went on", session.id_for("a"));
  },

  async hang(session, signal) {
    await session.say("hanging", session.id_for("a"));
    await aborted(signal);
  },

  async fail() {
    throw v2.RequestError.authRequired(undefined, "log in first");
  },

  async die() {
    process.exit(7);
  },
};

Session.prototype.answered = async function (subject, signal) {
  const options = [
    { optionId: "yes", name: "Yes", kind: "allow_once" },
    { optionId: "no", name: "No", kind: "reject_once" },
  ];
  const request = { sessionId: this.id, title: "May I?", subject, options };
  const answer = await this.client.request("session/request_permission", request, { cancellationSignal: signal });
  if (!signal.aborted) await this.state("running");
  await this.say(answer.outcome.optionId ?? answer.outcome.outcome, this.id_for("a"));
};

async function work(session, name, words, signal) {
  let end = { stopReason: "end_turn" };
  try {
    await works[name](session, signal, ...words);
  } catch (error) {
    end = { stopReason: "error", error: { code: error.code ?? -32603, message: error.message } };
  }
  session.running = null;
  await session.state("idle", signal.aborted ? { stopReason: "cancelled" } : end);
}

function known(id) {
  const session = sessions.get(id);
  if (session === undefined) throw v2.RequestError.sessionNotFound(id);
  return session;
}

const modern = v2
  .agent({ name: "v2-agent" })
  .onRequest("initialize", () => ({
    protocolVersion: 2,
    info,
    capabilities: { session: { prompt: { image: {} }, mcp: { stdio: {} }, delete: {} } },
    authMethods: [{ type: "agent", methodId: "key", name: "Key" }],
  }))
  .onRequest("auth/login", () => ({}))
  .onRequest("auth/logout", () => ({}))
  .onRequest("session/new", ({ params, client }) => {
    made += 1;
    const session = new Session(`s${made}`, params.cwd, client);
    sessions.set(session.id, session);
    const availableCommands = [{ type: "command", name: "stream", description: "Count." }];
    const values = [{ value: "a", name: "A" }, { value: "b", name: "B" }];
    const option = { type: "select", configId: "mode", name: "Mode", currentValue: "a", options: values };
    return { sessionId: session.id, availableCommands, configOptions: [option] };
  })
  .onRequest("session/resume", async ({ params, client }) => {
    const session = known(params.sessionId);
    session.client = client;
    const replay = params.replayFrom ? session.history.splice(0) : [];
    for (const update of replay) await session.tell(update);
    await session.state(session.running ? "running" : "idle");
    return {};
  })
  .onRequest("session/list", () => ({
    sessions: [...sessions.values()].map((session) => ({ sessionId: session.id, cwd: session.cwd })),
  }))
  .onRequest("session/set_config_option", ({ params }) => {
    const options = [{ value: "a", name: "A" }, { value: "b", name: "B" }];
    const { configId, value } = params;
    return { configOptions: [{ type: "select", configId, name: "Mode", currentValue: value, options }] };
  })
  .onRequest("session/close", async ({ params }) => {
    const session = sessions.get(params.sessionId);
    session?.cancel();
    if (session?.running) await new Promise((resolve) => setImmediate(resolve));
    return {};
  })
  .onRequest("session/delete", ({ params }) => {
    sessions.delete(params.sessionId);
    return {};
  })
  .onRequest("session/prompt", async ({ params, signal }) => {
    const session = known(params.sessionId);
    const [first, ...others] = params.prompt[0].text.split(" ");
    const isLate = first === "late";
    const [name, ...words] = isLate ? others : [first, ...others];
    if (name === "hold") {
      // Never put into the conversation: a cancel, of whichever kind, ends it.
      session.running = new AbortController();
      await Promise.race([aborted(session.running.signal), aborted(signal)]);
      session.running = null;
      throw new v2.RequestError(-32800, "withdrawn");
    }
    if (!(name in works)) throw v2.RequestError.invalidParams(undefined, `what is ${name}?`);
    const messageId = session.id_for("u");
    const insert = async () => {
      await session.tell({ sessionUpdate: "user_message", messageId, content: params.prompt });
      // Not before: a cancel that came ahead of the prompt may be dispatched meanwhile.
      session.running = new AbortController();
      await session.state("running");
    };
    if (!isLate) await insert();
    setImmediate(async () => {
      if (isLate) await insert();
      await work(session, name, words, session.running.signal);
    });
    return { messageId };
  })
  .onRequest("tool_call/cancel", ({ params }) => {
    const { digging } = known(params.sessionId);
    if (!digging || params.toolCallId !== "c3") throw v2.RequestError.invalidParams();
    digging.abort();
    return {};
  })
  .onNotification("session/cancel", ({ params }) => sessions.get(params.sessionId)?.cancel());

const old = v1
  .agent({ name: "v1-agent" })
  .onRequest("initialize", () => ({ protocolVersion: 1, agentInfo: info, agentCapabilities: {} }))
  .onRequest("session/new", () => ({ sessionId: "v1" }))
  .onRequest("session/prompt", () => ({ stopReason: "end_turn" }));

const only = process.env.AGENT_VERSIONS;
const stream = v1.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
if (only === "2") modern.connect(stream);
else if (only === "1") old.connect(stream);
else {
  const router = v1.agentProtocolRouter ?? v2.agentProtocolRouter;
  router().withV1(old).withV2(modern).connect(stream);
}
