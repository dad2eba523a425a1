// The agent's process: its pipes as an SDK stream, with every message observed as it passes.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

import { ndJsonStream } from "@agentclientprotocol/sdk";

import { observe } from "./observe.js";

// `told` is called with each line of the agent's, before the SDK gets it.
export function launch([command, ...argv], told = () => {}) {
  const child = spawn(command, argv, { stdio: ["pipe", "pipe", "inherit"] });
  const exited = new Promise((resolve, reject) => {
    child.once("error", reject);
    // "close" comes when its output has been read to the end as well.
    child.once("close", (code, signal) => resolve({ code, signal }));
  });
  const wire = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const sent = observed("sent", () => {});
  // Once the agent has gone there is nobody left to write to; the connection learns it from its reading side.
  sent.readable.pipeTo(wire.writable).catch((error) => observe("unwritable", { message: String(error) }));
  return {
    stream: { writable: sent.writable, readable: wire.readable.pipeThrough(observed("received", told)) },
    exited,
    endInput: () => child.stdin.end(),
    write: (text) => child.stdin.write(text),
    kill: () => child.kill("SIGKILL"),
  };
}

function observed(event, told) {
  return new TransformStream({
    transform(message, controller) {
      observe(event, { message });
      told(message);
      controller.enqueue(message);
    },
  });
}
