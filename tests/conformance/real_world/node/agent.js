// An agent on the official TypeScript SDK, written with care: what is wrong with it is the SDK's.
//
// A prompt's first word names the situation, see the profile `situations.toml`. Every request to the client carries the
// signal of the turn, as the SDK's documentation has it.

import { isAbsolute } from "node:path";
import { Readable, Writable } from "node:stream";

import { PROTOCOL_VERSION, RequestError, agent, methods, ndJsonStream } from "@agentclientprotocol/sdk";

const { fs, session: client } = methods.client;
const { session: mine } = methods.agent;

const options = [
  { optionId: "yes", name: "Allow", kind: "allow_once" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
];

const sessions = new Map();
let capabilities = {};

// One turn: what a situation needs to talk to the client.
class Turn {
  constructor(context, session, signal) {
    this.context = context;
    this.session = session;
    this.sessionId = session.id;
    this.signal = signal;
  }

  update(update) {
    return this.context.notify(client.update, { sessionId: this.sessionId, update });
  }

  say(text) {
    return this.update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });
  }

  ask(method, params) {
    return this.context.request(
      method,
      { sessionId: this.sessionId, ...params },
      { cancellationSignal: this.signal, stopWaitingOnCancel: true },
    );
  }

  async call(title, kind) {
    const toolCallId = `call_${++this.session.calls}`;
    await this.update({ sessionUpdate: "tool_call", toolCallId, title, kind, status: "pending" });
    return toolCallId;
  }

  progress(toolCallId, changes) {
    return this.update({ sessionUpdate: "tool_call_update", toolCallId, ...changes });
  }

  // Rejects when the turn is cancelled.
  cancelled() {
    return new Promise((_, reject) => {
      if (this.signal.aborted) reject(this.signal.reason);
      else this.signal.addEventListener("abort", () => reject(this.signal.reason), { once: true });
    });
  }
}

const situations = {
  quick: (turn) => turn.say("Done."),

  async stream(turn) {
    for (const word of ["one ", "two ", "three ", "four ", "five"]) await turn.say(word);
  },

  async hang(turn) {
    await turn.say("Working.");
    await turn.cancelled();
  },

  async stubborn(turn) {
    await turn.say("Working.");
    try {
      await turn.cancelled();
    } finally {
      await new Promise((resolve) => setTimeout(resolve, 200)); // being slow is what it is for
      await turn.say("Stopped.");
    }
  },

  async fails(turn) {
    await turn.say("Working.");
    throw new Error("a mishap with a secret in it");
  },

  async tool(turn) {
    const id = await turn.call("Count lines", "read");
    await turn.progress(id, { status: "in_progress" });
    const content = [{ type: "content", content: { type: "text", text: "5 lines" } }];
    await turn.progress(id, { status: "completed", content });
  },

  async plan(turn) {
    for (const status of ["pending", "in_progress", "completed"]) {
      await turn.update({ sessionUpdate: "plan", entries: [{ content: "Look at it", priority: "medium", status }] });
    }
  },

  async permission(turn) {
    const id = await turn.call("Change things", "edit");
    let outcome;
    try {
      ({ outcome } = await turn.ask(client.requestPermission, { toolCall: { toolCallId: id }, options }));
    } catch (error) {
      if (turn.signal.aborted) throw error;
    }
    turn.signal.throwIfAborted(); // permission may be given right behind the cancel
    await turn.progress(id, { status: outcome?.optionId === "yes" ? "completed" : "failed" });
  },

  async read(turn) {
    if (!capabilities.fs?.readTextFile) return turn.say("The client reads no files.");
    await tried(turn, async () => {
      const { content } = await turn.ask(fs.readTextFile, { path: `${turn.session.cwd}/a.txt` });
      await turn.say(content);
    });
  },

  async write(turn) {
    if (!capabilities.fs?.writeTextFile) return turn.say("The client writes no files.");
    await tried(turn, async () => {
      await turn.ask(fs.writeTextFile, { path: `${turn.session.cwd}/b.txt`, content: "new\n" });
      await turn.say("Written.");
    });
  },

  async nested(turn) {
    await turn.say("Asking.");
    await situations.read(turn);
  },

  async terminal(turn) {
    if (!capabilities.terminal) return turn.say("The client has no terminals.");
    const id = await turn.call("make test", "execute");
    await tried(turn, async () => {
      const terminal = await turn.context.createTerminal({
        sessionId: turn.sessionId,
        command: "make",
        args: ["test"],
        cwd: turn.session.cwd,
      });
      try {
        const content = [{ type: "terminal", terminalId: terminal.id }];
        await turn.progress(id, { status: "in_progress", content });
        await Promise.race([terminal.waitForExit(), turn.cancelled()]);
        await turn.say((await terminal.currentOutput()).output);
      } finally {
        if (turn.signal.aborted) await terminal.kill();
        await terminal.release();
      }
    });
    await turn.progress(id, { status: "completed" });
  },
};

// An error answer of the client's is told to the user and ends nothing.
async function tried(turn, work) {
  try {
    await work();
  } catch (error) {
    if (turn.signal.aborted || !(error instanceof RequestError)) throw error;
    await turn.say(`The client cannot do it: ${error.message}`);
  }
}

agent({ name: "typescript-sdk" })
  .onRequest(methods.agent.initialize, ({ params }) => {
    capabilities = params.clientCapabilities ?? {};
    return {
      protocolVersion: PROTOCOL_VERSION,
      agentCapabilities: {},
      agentInfo: { name: "typescript-sdk", version: "2.4.0" },
    };
  })
  .onRequest(mine.new, ({ params }) => {
    if (!isAbsolute(params.cwd)) throw RequestError.invalidParams({ cwd: "not absolute" });
    const id = `session-${sessions.size}`;
    sessions.set(id, { id, cwd: params.cwd, calls: 0, stop: null });
    return { sessionId: id };
  })
  .onNotification(mine.cancel, ({ params }) => {
    sessions.get(params.sessionId)?.stop?.abort();
  })
  .onRequest(mine.prompt, async ({ params, signal, client: context }) => {
    const session = sessions.get(params.sessionId);
    if (!session) throw RequestError.invalidParams({ sessionId: "unknown" });
    if (session.stop) throw RequestError.invalidRequest({ sessionId: "a turn is running" });
    const stop = (session.stop = new AbortController());
    const turn = new Turn(context, session, AbortSignal.any([signal, stop.signal]));
    const text = params.prompt.map((block) => block.text ?? "").join("");
    const name = text.split(" ", 1)[0];
    try {
      await (Object.hasOwn(situations, name) ? situations[name](turn) : turn.say(`You said: ${text}`));
      return { stopReason: stop.signal.aborted ? "cancelled" : "end_turn" };
    } catch (error) {
      if (stop.signal.aborted) return { stopReason: "cancelled" };
      throw error;
    } finally {
      session.stop = null;
    }
  })
  .connect(ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
