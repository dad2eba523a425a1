// The plan of a run: data from the test, with its defaults filled in.
//
//   cwd          directory of every session
//   sessions     one list of turns a session; sessions run side by side, the turns of one after each other
//     text         the prompt
//     cancelOn     the point at which the client cancels this turn
//     cancelBy     "session/cancel", "signal" for an AbortSignal on the prompt request, or "tool" for the tool call alone
//     stopWaiting  with a signal: go on to the next turn at once, without waiting for the answer
//     lateAnswer   answer a request of the agent as if nothing had happened after it was withdrawn
//   settings     values of config options, by their ids, which every session is given
//   permission   the kind of the option to choose, or "cancelled", or "error"
//   files        whether the client offers its file system
//   terminals    whether it offers terminals
//   endInputOn   the point at which to close the agent's stdin, instead of waiting for the answers
//
// A point is a kind of update (`sessionUpdate`) or the method of a request by the agent.

export function parsePlan({ sessions, ...options }) {
  const defaults = { settings: {}, permission: "allow_once", endInputOn: null, files: true, terminals: true };
  return { ...defaults, ...options, sessions: sessions.map((turns) => turns.map(parseTurn)) };
}

function parseTurn(turn) {
  return { cancelOn: null, cancelBy: "session/cancel", stopWaiting: false, lateAnswer: false, ...turn };
}
