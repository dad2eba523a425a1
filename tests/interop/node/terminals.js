// Terminals of the client: real processes, their output collected, until they are released.

import { spawn } from "node:child_process";

export class Terminals {
  #open = new Map();
  #whenReleased = [];
  #made = 0;

  create({ command, args = [], cwd, env = [] }) {
    const variables = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    const child = spawn(command, args, { cwd: cwd ?? undefined, env: { ...process.env, ...variables } });
    const terminal = { child, output: "", exit: null };
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8").on("data", (text) => (terminal.output += text));
    }
    // "close" comes when the output has been read to its end as well.
    terminal.closed = new Promise((resolve) => {
      child.once("close", (exitCode, signal) => resolve((terminal.exit = { exitCode, signal })));
    });
    const terminalId = `terminal-${(this.#made += 1)}`;
    this.#open.set(terminalId, terminal);
    return { terminalId };
  }

  output(id) {
    const { output, exit } = this.#get(id);
    return { output, truncated: false, exitStatus: exit };
  }

  waitForExit(id) {
    return this.#get(id).closed;
  }

  kill(id) {
    this.#get(id).child.kill("SIGKILL");
    return {};
  }

  release(id) {
    this.kill(id);
    this.#open.delete(id);
    if (this.#open.size === 0) this.#whenReleased.splice(0).forEach((resolve) => resolve());
    return {};
  }

  // Resolves when there is none that has not been released.
  allReleased() {
    return new Promise((resolve) => (this.#open.size === 0 ? resolve() : this.#whenReleased.push(resolve)));
  }

  // Ends those that nobody released, and says which.
  dispose() {
    const unreleased = [...this.#open.keys()];
    for (const id of unreleased) this.release(id);
    return unreleased;
  }

  #get(id) {
    const terminal = this.#open.get(id);
    if (!terminal) throw new Error(`no terminal ${id}`);
    return terminal;
  }
}
