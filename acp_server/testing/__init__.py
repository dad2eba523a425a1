"""Public helpers for testing agents and clients, without processes, sleeps or luck.

    memory       memory_pair: two connected streams in memory
    faults       FaultyStream: splits, stalls, breaks, read errors, early ends
    scripted     ScriptedClient, scripted: drive an agent with raw messages and wait for what it sends
    transcript   Transcript, read_recording: the wire as text, and recordings read back

They work on asyncio and trio, under any test runner.
"""

from acp_server.testing.faults import FaultyStream
from acp_server.testing.memory import MemoryStream, memory_pair
from acp_server.testing.scripted import ScriptedClient, scripted
from acp_server.testing.transcript import Entry, Transcript, read_recording

__all__ = [
    "Entry",
    "FaultyStream",
    "MemoryStream",
    "ScriptedClient",
    "Transcript",
    "memory_pair",
    "read_recording",
    "scripted",
]
