"""The object that agent authors write against, and the ways to serve it: standard input and output, or any stream.

How it works:

- The decorators of `Agent` (`app`) fill in the agent's definition. The session layer calls the functions in that
  definition; `handlers` adapts the author's functions to it. Nothing runs before `run`, `serve` or `connect`.
- As a program (`serve`), the agent takes over parts of its process. `process` keeps the program's own prints out of the
  protocol, and `signals` hands signals to the event loop.
- `fd_stream` reads and writes without threads. Where the event loop cannot wait for a pipe, `threaded_stream` has one
  thread for each direction.
- Every shutdown has a deadline, whatever its reason (`ending`). A disconnected client is noticed even while the event
  loop is blocked (`loop_watch`). Child processes end with the agent's process.
- Logging never blocks the event loop (`log`). `record` records both directions of a conversation.
"""
