"""The object that agent authors write against, and the ways to serve it: standard input and output, or any stream.

How it works:

- The decorators of `Agent` (`app`) fill in the agent's definition, from which the protocol's side calls; `handlers`
  adapts functions to it. Nothing runs before `run`, `serve` or `connect`.
- As a program (`serve`), the agent takes over parts of its process. `process` keeps the program's own prints out of the
  protocol, and `signals` hands signals to the event loop.
- `fd_stream` reads and writes without threads. Where the event loop cannot wait for a pipe, `threaded_stream` has one
  thread for each direction.
- Every shutdown has a deadline, whatever its reason (`ending`). A disconnected client is noticed also while the event
  loop is blocked (`loop_watch`), and child processes end with this one.
- Logging never blocks the event loop (`log`). A recording has both directions of a conversation (`record`).
"""
