// The agent's process: its pipes as an SDK stream, with every message observed as it passes.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

import { ndJsonStream } from "@agentclientprotocol/sdk";

import { observe, within } from "./observe.js";

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

// Lets the client `app` talk with the agent as `run` does, and then sees it leave: 0, or 3 if that failed.
export async function driven(agent, app, run) {
  try {
    const connection = app.connect(agent.stream);
    await within(run(connection.agent), "the plan");
    agent.endInput();
    observe("exit", await within(agent.exited, "the agent's exit"));
    return 0;
  } catch (error) {
    observe("failure", { message: String(error?.stack ?? error) });
    agent.kill();
    return 3;
  }
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
