"""Public helpers for testing agents and clients, without processes, sleeps or races.

    talking      talk: a session of an agent in memory, by the client API
    streams      memory_pair: two connected streams in memory; FaultyStream: splits, stalls, breaks, read errors
    observers    check_observer: runs an Observer through each kind of end
    stores       check_store: holds a SessionStore against its contract
    stream_checks  check_stream: the same of a Stream
    scripted     ScriptedClient: sends raw messages to an agent and waits for its messages; ScriptedAgent, for clients;
                 scripted: an agent in memory, connected to a scripted client

`Transcript`, which shows messages as text, and `read_recording` come from `acp_server.agent.record`.

The helpers work on asyncio and trio, with any test runner.
"""

from acp_server.agent.record import Direction, Entry, Transcript, read_recording
from acp_server.testing.observers import check_observer
from acp_server.testing.scripted import Match, Message, ScriptedAgent, ScriptedClient, scripted
from acp_server.testing.stores import check_store
from acp_server.testing.stream_checks import Connected, check_stream
from acp_server.testing.streams import FaultyStream, MemoryStream, memory_pair
from acp_server.testing.talking import Permission, talk

__all__ = [
    "Connected",
    "Direction",
    "Entry",
    "FaultyStream",
    "Match",
    "MemoryStream",
    "Message",
    "Permission",
    "ScriptedAgent",
    "ScriptedClient",
    "Transcript",
    "check_observer",
    "check_store",
    "check_stream",
    "memory_pair",
    "read_recording",
    "scripted",
    "talk",
]
