"""Tools: what an agent can do for a model, and one call of it from the question for approval to its last status.

How it works:

- A `Tool` (`tool`) is a function of the author's. What it takes is known from its signature (`parameters`) or from a
  JSON Schema (`json_schema`), both of which check arguments and describe them to a model.
- `session_tools` finds a tool by the name that a model gave, and begins an `Execution` (`runner`). That is a node below
  its turn's node, with a task of its own; a plain function runs in a thread.
- A call goes through these steps: the arguments are read, the user is asked if need be (`permission`), the function
  runs, and what it returned becomes text and content (`output`).
- The client sees the call through its `View` alone, which sends what is new at a steady pace and within bounds. What a
  function may know and say is in its `ToolContext` (`context`), from any thread.
- What came of a call follows from whether its node was cancelled before the function was through. When it is cancelled,
  the client is told the end at once. The function cleans up unseen, and `on_cancel` has its last words.
- `editor` changes files through the client's editor by the rules of `edits`.
"""
