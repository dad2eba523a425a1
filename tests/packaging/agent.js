// A small agent without any library: what the suite judges from an empty folder. It says each prompt back, word by word.
"use strict";

const { randomUUID } = require("node:crypto");
const { isAbsolute } = require("node:path");

const sessions = new Map(); // id -> the turn that runs, or null
const utf8 = new TextDecoder("utf-8", { fatal: true });
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

function send(message) {
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
}

function demand(holds, what) {
  if (!holds) throw new Refusal(-32602, `Invalid params: ${what}`);
}

function sessionOf(params) {
  demand(typeof params.sessionId === "string", "sessionId is a string");
  if (!sessions.has(params.sessionId)) throw new Refusal(-32002, "Session not found");
  return params.sessionId;
}

const requests = {
  initialize({ protocolVersion }) {
    demand(Number.isInteger(protocolVersion) && protocolVersion >= 0 && protocolVersion < 65536, "protocolVersion is a 16-bit number");
    return { protocolVersion: 1, agentCapabilities: {}, agentInfo: { name: "javascript", version: "1" }, authMethods: [] };
  },
  "session/new"({ cwd, mcpServers }) {
    demand(typeof cwd === "string" && isAbsolute(cwd), "cwd is an absolute path");
    demand(Array.isArray(mcpServers) && mcpServers.every(isObject), "mcpServers is a list");
    const sessionId = randomUUID();
    sessions.set(sessionId, null);
    return { sessionId };
  },
  async "session/prompt"(params) {
    const sessionId = sessionOf(params);
    demand(Array.isArray(params.prompt), "prompt is a list");
    const texts = params.prompt.map((block) => {
      demand(isObject(block) && typeof block.type === "string", "each block has a type");
      demand(block.type === "text" || block.type === "resource_link", "text and links are taken");
      demand(block.type !== "text" || typeof block.text === "string", "text is a string");
      demand(block.type === "text" || (typeof block.uri === "string" && typeof block.name === "string"), "a link has a name and a uri");
      return block.type === "text" ? block.text : block.uri;
    });
    if (sessions.get(sessionId)) throw new Refusal(-32600, "A turn is running");
    const turn = { cancelled: false };
    sessions.set(sessionId, turn);
    for (const word of texts.join(" ").split(" ")) {
      await new Promise(setImmediate);
      if (turn.cancelled) break;
      const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: word } };
      send({ method: "session/update", params: { sessionId, update } });
    }
    sessions.set(sessionId, null);
    return { stopReason: turn.cancelled ? "cancelled" : "end_turn" };
  },
};

function notified({ method, params }) {
  if (method === "session/cancel" && isObject(params)) {
    const turn = sessions.get(params.sessionId);
    if (turn) turn.cancelled = true;
  }
}

async function serve(message) {
  const { id, method, params } = message;
  const valid = id === null || typeof id === "string" || typeof id === "number";
  try {
    if (message.jsonrpc !== "2.0" || typeof method !== "string" || !valid) throw new Refusal(-32600, "Invalid request");
    if (params !== undefined && (typeof params !== "object" || params === null)) throw new Refusal(-32600, "Invalid request");
    if (!Object.hasOwn(requests, method)) throw new Refusal(-32601, "Method not found");
    demand(isObject(params), "an object is expected");
    send({ id, result: await requests[method](params) });
  } catch (error) {
    const known = error instanceof Refusal;
    send({ id: valid ? id : null, error: { code: known ? error.code : -32603, message: known ? error.message : "Internal error" } });
  }
}

function take(line) {
  let message;
  try {
    const text = utf8.decode(line);
    if (text.trim() === "") return;
    message = JSON.parse(text);
  } catch {
    send({ id: null, error: { code: -32700, message: "Parse error" } });
    return;
  }
  if (!isObject(message)) send({ id: null, error: { code: -32600, message: "Invalid request" } });
  else if ("result" in message || "error" in message) return; // it asks for nothing, so nothing is answered
  else if ("id" in message) void serve(message);
  else if (typeof message.method === "string") notified(message);
  else send({ id: null, error: { code: -32600, message: "Invalid request" } });
}

let rest = Buffer.alloc(0);
process.stdout.on("error", () => process.exit(1));
process.stdin.on("data", (chunk) => {
  const lines = Buffer.concat([rest, chunk]);
  let begin = 0;
  for (let end; (end = lines.indexOf(10, begin)) !== -1; begin = end + 1) take(lines.subarray(begin, end));
  rest = lines.subarray(begin);
});
process.stdin.on("end", () => process.exit(0));
