"""Public helpers for testing agents and clients, without processes, sleeps or luck.

    talking      talk: a session of an agent in memory, by the client API
    streams      memory_pair: two connected streams in memory; FaultyStream: splits, stalls, breaks, read errors
    scripted     ScriptedClient: sends raw messages to an agent and waits for its messages; ScriptedAgent, for clients;
                 scripted: an agent in memory, connected to a scripted client

Transcript and read_recording, the wire as text and recordings read back, are in `acp_server.agent.record`.

They work on asyncio and trio, under any test runner.
"""

from acp_server.agent.record import Entry, Transcript, read_recording
from acp_server.testing.scripted import ScriptedAgent, ScriptedClient, scripted
from acp_server.testing.streams import FaultyStream, MemoryStream, memory_pair
from acp_server.testing.talking import talk

__all__ = [
    "Entry",
    "FaultyStream",
    "MemoryStream",
    "ScriptedAgent",
    "ScriptedClient",
    "Transcript",
    "memory_pair",
    "read_recording",
    "scripted",
    "talk",
]
