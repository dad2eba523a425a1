"""An Agent Client Protocol (ACP) runtime: agents and clients over JSON-RPC 2.0, cancellable at every depth.

The packages, with imports from upper to lower ones only:

    apps         applications on the public API of the packages below:
      cli        the command line: serve, chat, demo, trace, gateway, schema
      gateway    an HTTP server with the Coze v3 chat API for any agent
      coder      the built-in agent: searches, reads, edits a project and runs commands, offline or for a model
      assistant  tools in two parts: a manifest, and functions registered for it

    integrations agents that are written with a framework
    remote       agents and clients on different machines: HTTP and WebSocket
    agent        `Agent`, the class that authors use, and the ways to serve it
    client       the other side: starts an agent and sends it prompts
    testing      memory streams, scripted clients and faults, for your own tests
    mcp          the MCP servers that a client names for a session
    tools        tools for a model: approval, running, progress, cancel, partial results
    session      the methods of ACP: negotiation, sessions, turns, updates, requests to the client
    store        stored sessions: records, in memory, in a SQLite file
    peer         one live connection: read loop, dispatch, requests both ways, the writer
    processes    child processes and their end
    http         ASGI applications on sockets: strict HTTP/1.1, bounded connections, server-sent events
    wire         pure: bytes, messages, in-flight requests
    tasks        pure: scopes, causes of cancels, grace periods
    schema       the types of ACP v1
    errors       every exception
    safe_text    makes untrusted text safe to show
    paths        paths walked without symbolic links

Each name is imported when it is first used, so that importing the package costs almost nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp_server.agent.app import Agent as Agent
    from acp_server.agent.serve import Servable as Servable
    from acp_server.agent.serve import Wrap as Wrap
    from acp_server.agent.serve import serve as serve
    from acp_server.agent.serve import serve_stdio as serve_stdio
    from acp_server.errors import AcpError as AcpError
    from acp_server.errors import AuthRequired as AuthRequired
    from acp_server.errors import CapabilityMissing as CapabilityMissing
    from acp_server.errors import ConnectionClosed as ConnectionClosed
    from acp_server.errors import EncodeError as EncodeError
    from acp_server.errors import InternalError as InternalError
    from acp_server.errors import InvalidParams as InvalidParams
    from acp_server.errors import InvalidRequest as InvalidRequest
    from acp_server.errors import MalformedResponse as MalformedResponse
    from acp_server.errors import MethodNotFound as MethodNotFound
    from acp_server.errors import RequestCancelled as RequestCancelled
    from acp_server.errors import RequestTimeout as RequestTimeout
    from acp_server.errors import ResourceNotFound as ResourceNotFound
    from acp_server.errors import RpcError as RpcError
    from acp_server.errors import SessionClosed as SessionClosed
    from acp_server.errors import ToolCancelled as ToolCancelled
    from acp_server.errors import ToolError as ToolError
    from acp_server.errors import ToolFailed as ToolFailed
    from acp_server.errors import ToolRejected as ToolRejected
    from acp_server.errors import TurnEnded as TurnEnded
    from acp_server.errors import UsageError as UsageError
    from acp_server.peer.answer import Answer as Answer
    from acp_server.peer.call import Call as Call
    from acp_server.peer.connection import Connection as Connection
    from acp_server.peer.limits import Limits as Limits
    from acp_server.peer.observed import MessageObserver as MessageObserver
    from acp_server.peer.observed import ObservedStream as ObservedStream
    from acp_server.peer.observer import Observer as Observer
    from acp_server.peer.observer import Outcome as Outcome
    from acp_server.peer.observer import Span as Span
    from acp_server.peer.observer import SpanKind as SpanKind
    from acp_server.peer.outbound import OnOver as OnOver
    from acp_server.peer.outbound import OnResult as OnResult
    from acp_server.peer.peer import Peer as Peer
    from acp_server.peer.stream import Stream as Stream
    from acp_server.session.client import Client as Client
    from acp_server.session.client import PermissionAnswer as PermissionAnswer
    from acp_server.session.definition import CallView as CallView
    from acp_server.session.definition import McpHost as McpHost
    from acp_server.session.definition import McpServerState as McpServerState
    from acp_server.session.definition import NeedsApproval as NeedsApproval
    from acp_server.session.definition import Origin as Origin
    from acp_server.session.definition import ToolHost as ToolHost
    from acp_server.session.negotiation import Initialization as Initialization
    from acp_server.session.plan import Compaction as Compaction
    from acp_server.session.plan import Priority as Priority
    from acp_server.session.plan import Step as Step
    from acp_server.session.session import Session as Session
    from acp_server.session.settings import Option as Option
    from acp_server.session.settings import Settings as Settings
    from acp_server.session.state import TurnState as TurnState
    from acp_server.session.subagents import Subagent as Subagent
    from acp_server.session.terminal import Terminal as Terminal
    from acp_server.session.turn import OfTool as OfTool
    from acp_server.session.turn import OwnStopReason as OwnStopReason
    from acp_server.session.turn import Turn as Turn
    from acp_server.store.history import Message as Message
    from acp_server.store.memory import MemoryStore as MemoryStore
    from acp_server.store.records import SessionRecord as SessionRecord
    from acp_server.store.records import ToolResult as ToolResult
    from acp_server.store.records import TurnError as TurnError
    from acp_server.store.records import TurnRecord as TurnRecord
    from acp_server.store.records import Usage as Usage
    from acp_server.store.session_store import Page as Page
    from acp_server.store.session_store import SessionStore as SessionStore
    from acp_server.store.session_store import TurnJournal as TurnJournal
    from acp_server.store.sqlite_store import SqliteStore as SqliteStore
    from acp_server.tasks.cause import Cause as Cause
    from acp_server.tasks.grace import grace as grace
    from acp_server.tasks.native import run_native as run_native
    from acp_server.tools.approval import Always as Always
    from acp_server.tools.approval import Approval as Approval
    from acp_server.tools.approval import Approvals as Approvals
    from acp_server.tools.approval import UserAction as UserAction
    from acp_server.tools.context import OnCancel as OnCancel
    from acp_server.tools.context import ToolContext as ToolContext
    from acp_server.tools.permission import SessionApprovals as SessionApprovals
    from acp_server.tools.tool import OfArguments as OfArguments
    from acp_server.tools.tool import Tool as Tool
    from acp_server.tools.tool import Toolbox as Toolbox
    from acp_server.tools.tool import ToolKind as ToolKind
    from acp_server.wire.messages import RequestId as RequestId

_NAMES = {
    "agent.app": "Agent",
    "agent.serve": "Servable Wrap serve serve_stdio",
    "errors": (
        "AcpError AuthRequired CapabilityMissing ConnectionClosed EncodeError InternalError InvalidParams "
        "InvalidRequest MalformedResponse MethodNotFound RequestCancelled RequestTimeout ResourceNotFound "
        "RpcError SessionClosed ToolCancelled ToolError ToolFailed ToolRejected TurnEnded UsageError"
    ),
    "peer.answer": "Answer",
    "peer.call": "Call",
    "peer.connection": "Connection",
    "peer.limits": "Limits",
    "peer.observed": "MessageObserver ObservedStream",
    "peer.observer": "Observer Outcome Span SpanKind",
    "peer.outbound": "OnOver OnResult",
    "peer.peer": "Peer",
    "peer.stream": "Stream",
    "session.client": "Client PermissionAnswer",
    "session.definition": "CallView McpHost McpServerState NeedsApproval Origin ToolHost",
    "session.negotiation": "Initialization",
    "session.plan": "Compaction Priority Step",
    "session.session": "Session",
    "session.settings": "Option Settings",
    "session.state": "TurnState",
    "session.subagents": "Subagent",
    "session.terminal": "Terminal",
    "session.turn": "OfTool OwnStopReason Turn",
    "store.history": "Message",
    "store.memory": "MemoryStore",
    "store.records": "SessionRecord ToolResult TurnError TurnRecord Usage",
    "store.session_store": "Page SessionStore TurnJournal",
    "store.sqlite_store": "SqliteStore",
    "tasks.cause": "Cause",
    "tasks.grace": "grace",
    "tasks.native": "run_native",
    "tools.approval": "Always Approval Approvals UserAction",
    "tools.context": "OnCancel ToolContext",
    "tools.permission": "SessionApprovals",
    "tools.tool": "OfArguments Tool ToolKind Toolbox",
    "wire.messages": "RequestId",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

if not TYPE_CHECKING:  # type checkers read the imports above
    __all__ = [*_MODULE_OF]

__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
