"""The built-in agent: searches, reads and counts a real project directory, offline.

Its engines (`search`, `read`, `scan`, with `roots`, `walk` and `commands`) know no protocol: they are plain
generators that `batches` runs in a worker thread.
"""

from acp_server.workspace.agent import agent as agent
