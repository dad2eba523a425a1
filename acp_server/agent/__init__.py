"""The object that agent authors write against, and the ways to serve it: standard input and output, or any stream.

How it works:

- The decorators of `Agent` (`app`) fill in what the protocol's side calls; `handlers` adapts functions to it. Nothing
  runs before `run`, `serve` or `connect`.
- As a program (`serve`), the agent takes what a process has. `process` keeps the program's own prints off the
  protocol, and hands signals to the event loop.
- Bytes pass through `fd_stream` without threads. Where the loop cannot wait for a pipe, `threaded_stream` has a thread
  for each way.
- Every end has a deadline, whatever began it (`ending`). A client that is gone is noticed also while the event loop is
  held (`loop_watch`), and the children of the process end with it.
- A log never makes the loop wait (`log`), and a recording has both directions of a conversation (`record`).
"""
