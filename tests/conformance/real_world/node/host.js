// Serves agents in one process: each conversation evaluates the agent's file anew, and shares what it imports.
//
// A conversation is three connections to the socket that is the argument: input, output, and one that says by its end
// that the agent is gone. Each begins with a line "CONVERSATION input|output|end FILE".

import { createServer } from "node:net";
import { pathToFileURL } from "node:url";

const QUIET = 100; // Milliseconds of silence behind the end of the input that are taken for the agent's end.

const halves = new Map();
let turn = Promise.resolve();

function serve(conversation, file, { input, output, end }) {
  const gone = () => {
    for (const socket of [input, output, end]) socket.destroy();
  };
  for (const socket of [input, output]) {
    // A process would die of it.
    socket.on("error", gone);
  }
  end.on("error", () => {});
  output.on("close", gone);
  input.on("end", () => {
    let written = -1;
    const look = setInterval(() => {
      if (output.destroyed || written === output.bytesWritten) {
        clearInterval(look);
        output.end(gone);
      }
      written = output.bytesWritten;
    }, QUIET);
  });
  // An agent takes its streams when it is evaluated, so one after the other.
  turn = turn.then(async () => {
    Object.defineProperty(process, "stdin", { value: input, configurable: true });
    Object.defineProperty(process, "stdout", { value: output, configurable: true });
    await import(`${pathToFileURL(file)}?${conversation}`);
  });
}

function head(socket, chunk) {
  const at = chunk.indexOf(10);
  if (at < 0) throw new Error("a connection that does not begin with a line");
  const [conversation, half, file] = chunk.subarray(0, at).toString().split(" ");
  if (at + 1 < chunk.length) socket.unshift(chunk.subarray(at + 1));
  const all = halves.get(conversation) ?? {};
  halves.set(conversation, all);
  all[half] = socket;
  if (Object.keys(all).length === 3) {
    halves.delete(conversation);
    serve(conversation, file, all);
  }
}

// What an agent lets go wrong ends its process; here the others go on.
process.on("uncaughtException", () => {});
process.on("unhandledRejection", () => {});
const stdin = process.stdin;
stdin.on("end", () => process.kill(process.pid, "SIGKILL")).resume();

createServer({ allowHalfOpen: true, pauseOnConnect: true }, (socket) => {
  socket.once("data", (chunk) => {
    socket.pause();
    head(socket, chunk);
  });
  socket.resume();
}).listen(process.argv[2], () => console.log("listening"));
