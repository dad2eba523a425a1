"""Public helpers for testing agents and clients, without processes, sleeps or luck.

    memory       memory_pair: two connected streams in memory
    faults       FaultyStream: splits, stalls, breaks, read errors, early ends
    scripted     ScriptedClient: raw messages to an agent, and waiting for what it sends; ScriptedAgent, for clients
    serving      scripted: an agent in memory with a scripted client in front of it
    transcript   Transcript, read_recording: the wire as text, and recordings read back

They work on asyncio and trio, under any test runner.
"""

from acp_server.testing.faults import FaultyStream
from acp_server.testing.memory import MemoryStream, memory_pair
from acp_server.testing.scripted import ScriptedAgent, ScriptedClient
from acp_server.testing.serving import scripted
from acp_server.testing.transcript import Entry, Transcript, read_recording

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
]
