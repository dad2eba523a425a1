"""A black-box conformance suite for the Agent Client Protocol: it judges any agent, and any client.

    python -m conformance agent [--profile NAME|FILE] -- COMMAND...
    python -m conformance client -- COMMAND... {agent} ...
    python -m conformance compare BEFORE.json AFTER.json

It starts the command under test as a subprocess, speaks newline-delimited JSON-RPC to it with a framing of its own,
and reports case by case which rules of the protocol hold. It shares no code with the runtime beside it, so that no
mistake of the runtime can hide itself here. It is as strict as the specification and no stricter: where real agents
legitimately differ, the case is a *choice*, reported and never failed.

The map: `result` is the data of a run; `case` how a rule is written down; `agent/` the rules for agents, a file a
group, and `client/` those for clients; `peer` is the suite as a client, a `conversation` of `exchange`s over `process`
and `lines`, with `editor` for what a well-behaved client answers; `schema` and `meaning` check every message of the
subject in the background and find `violation`s; `profile` says which prompt brings an agent into which situation; `run`
runs the chosen cases; `report/` shows them; `cli` is the command line.
"""
