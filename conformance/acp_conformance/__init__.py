"""A black-box conformance suite for the Agent Client Protocol: it judges any agent, and any client.

    python -m acp_conformance agent [--profile NAME|FILE] -- COMMAND...
    python -m acp_conformance client -- COMMAND... {agent} ...
    python -m acp_conformance compare BEFORE.json AFTER.json

It starts the command under test as a subprocess, speaks newline-delimited JSON-RPC to it with its own framing, and
reports case by case which rules of the protocol hold. The suite shares no code with the runtime of this project, so
that a fault of the runtime cannot hide itself here. The suite is exactly as strict as the specification. Where the
specification permits several behaviours, the case is a *choice*, which is reported and never failed.

The map, in the order of imports: `core` is shared; `report` shows the data of a run; `agent` judges agents and `client`
judges clients, and neither imports the other. `cli` is the command line, with `options` shared by its commands.
"""

__version__ = "0.2.0"
