"""Tools: typed functions that a model may call. This package runs each call, from its approval to its final status.

How it works:

- A `Tool` (`tool`) wraps a function of the author. Its signature (`parameters`) or a JSON Schema (`json_schema`) checks
  the arguments and describes them to a model.
- `session_tools` finds a tool by the name that a model gave, and begins an `Execution` (`runner`), which is a node
  below its turn's node and has its own task. A plain function runs in a worker thread.
- A call has these steps: read the arguments, ask the user if the tool needs approval (`permission`), run the function,
  and turn its result into text and content (`output`).
- The client sees the call only through the call's `View`, which sends changes at a steady pace and within bounds. The
  function reads and reports through its `ToolContext` (`context`), from any thread.
- If the node of a call is cancelled before its function ends, the call is cancelled, whatever the function returns or
  raises. The client gets the final status without waiting for the cleanup; `on_cancel` returns the text for it.
- `editor` changes files through the client's editor by the rules of `edits`.
"""
