"""The built-in agent: it works on a real project directory, offline by commands, or as a model decides.

Its engines (`search`, `read`, `scan`, with `roots`, `walk` and `commands`) know no protocol: they are plain
generators that `batches` runs in a worker thread.
"""

from acp_server.workspace.agent import agent as agent
