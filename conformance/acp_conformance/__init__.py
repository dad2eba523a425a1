"""A black-box conformance suite for the Agent Client Protocol: it judges any agent, and any client.

    python -m acp_conformance agent [--profile NAME|FILE] -- COMMAND...
    python -m acp_conformance client -- COMMAND... {agent} ...
    python -m acp_conformance compare BEFORE.json AFTER.json

It starts the command under test as a subprocess, speaks newline-delimited JSON-RPC to it with a framing of its own,
and reports case by case which rules of the protocol hold. It shares no code with the runtime beside it, so that no
mistake of the runtime can hide itself here. It is as strict as the specification and no stricter: where real agents
legitimately differ, the case is a *choice*, reported and never failed.

The map, in the order in which imports go: `core` is what both judges share; `report` shows the data of a run; `agent`
judges agents and `client` judges clients, and neither knows the other. `cli` is the command line, with `options` for
what its commands have in common.
"""

__version__ = "0.2.0"
