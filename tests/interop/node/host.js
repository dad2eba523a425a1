// Carries out one plan after the other, for to load the SDK takes longer than most plans.
//
// Each line of stdin is an order in JSON: the `version` of the protocol or `children`, the `plan` (see `drive.js`,
// `drive_v2.js`, `drive_children.js`), the `command` of the agent, and `env`, additional variables of its processes.
// The observations of a plan are followed by one of `done`, with the code that the driver gave.

import { createInterface } from "node:readline";

import { observe } from "./observe.js";

const DRIVERS = { 1: "./drive.js", 2: "./drive_v2.js", children: "./drive_children.js" };

for await (const line of createInterface({ input: process.stdin })) {
  const { version, plan, command, env } = JSON.parse(line);
  Object.assign(process.env, env);
  const { drive } = await import(DRIVERS[version]);
  const code = await drive(plan, command);
  // What the end of the agent lets happen is observed first.
  await new Promise((resolve) => setImmediate(resolve));
  observe("done", { code });
}
