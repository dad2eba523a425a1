"""Offers the tools of one MCP server as tools of the session, with their names, approvals, additions and removals.

Their results become content for the user and the model (`output`; MCP, Tools: tool result). The server's questions to
the user during a call are sent to the client (`ServerQuestions`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Generator, Iterable
from contextlib import contextmanager
from hashlib import sha256
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote
from uuid import uuid4

import anyio
from anyio import to_thread
from pydantic import ValidationError

from acp_server.errors import AcpError, EncodeError, ToolFailed, UsageError
from acp_server.safe_text import escape, one_line
from acp_server.schema.content import AudioContent, EmbeddedResource, ImageContent, ResourceLink
from acp_server.schema.elicitation import ElicitationSchema
from acp_server.tools.approval import Always, code
from acp_server.tools.context import ToolContext
from acp_server.tools.json_schema import SchemaParameters
from acp_server.tools.output import Output, is_large
from acp_server.tools.parameters import CHARACTERS, LONGEST
from acp_server.tools.tool import Tool
from acp_server.tools.view import as_content
from acp_server.wire import codec

if TYPE_CHECKING:
    from acp_server.session.definition import NeedsApproval
    from acp_server.session.session import Session

logger: logging.Logger = logging.getLogger("acp_server.mcp")

TEXT: Final = 100_000
"""The most characters of one result's text that are passed on, because more would fill a model's context. The middle of
a longer text is omitted."""

_STRUCTURED: Final = 1024 * 1024
"""The most bytes of structured content that are passed on."""

_BLOCKS: Final[dict[str, Any]] = {
    "image": ImageContent,
    "audio": AudioContent,
    "resource_link": ResourceLink,
    "resource": EmbeddedResource,
}


def output(result: Any, call: ToolContext) -> Output:
    """Convert a `CallToolResult`. Text goes to the user and the model. Images, recordings and resources are shown to
    the user and described to the model. The value is the structured content. Without structured content, the value is
    the text, or all content blocks if there is more than text.

    Raises ToolFailed for an error result.
    """
    most = call.client.connection.limits.content
    texts: list[str] = []
    blocks: list[Any] = []
    for block in cast(
        "list[dict[str, Any]]", [block.model_dump(by_alias=True, mode="json") for block in result.content]
    ):
        if block["type"] == "text":
            texts.append(block["text"])
            continue
        size = _size(block)
        most -= size
        texts.append(_told(block) if most >= 0 else f"[{block['type']} of {size} characters: too long, omitted]")
        if most >= 0:
            blocks.append(_BLOCKS[block["type"]].from_wire({k: v for k, v in block.items() if v is not None}))
    text = shortened("\n".join(texts))
    if result.is_error:
        for block in blocks:
            call.progress(block)
        raise ToolFailed(text or "The tool failed.")
    structured = _structured(result.structured_content)
    if structured is not None and not text:
        text = codec.encode(structured).decode().rstrip("\n")
    told = Output(text)
    told.content = [as_content(block) for block in blocks]
    told.value = structured if structured is not None else [text, *blocks] if blocks else text
    told.raw_output = structured
    return told


def shortened(text: str, most: int = TEXT) -> str:
    """Return the text. If it has more than `most` characters, its middle is omitted."""
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters omitted]\n{text[-half:]}"


def _structured(value: Any) -> Any:
    try:
        return None if value is None or is_large(value) or len(codec.encode(value)) > _STRUCTURED else value
    except EncodeError:
        return None


def _size(block: dict[str, Any]) -> int:
    # The whole block, since links and descriptions are unbounded too.
    return len(codec.encode(block))


def _told(block: dict[str, Any]) -> str:
    """Return the text that describes to a model a block that is not text."""
    if block["type"] == "resource_link":
        return f"[{block['name']}]({block['uri']})"
    if block["type"] != "resource":
        return f"[{block['type']}, {block['mimeType']}: shown to the user]"
    resource = block["resource"]
    return (
        f"{resource['uri']}:\n{resource['text']}" if "text" in resource else f"[{resource['uri']}: shown to the user]"
    )


TOOLS: Final = 256
"""The most tools of one server that are offered. Models accept a few hundred in total."""

_SCHEMA: Final = 64 * 1024
"""The most bytes of a tool's definition. A tool with a longer definition is not offered."""

_DESCRIPTION: Final = 8_000
"""The most characters of a description."""

_TITLE: Final = 200
_LABEL: Final = 60

Call = Callable[[str, dict[str, Any], ToolContext], Awaitable[Output]]
"""Calls a tool of the server, by its name at the server."""


class ServerTools:
    """The tools of one server. `name`: the server's name, unique in the session. `call`: calls a tool. `is_trusted`:
    whether read-only hints are trusted."""

    def __init__(
        self, name: str, session: Session, approval: NeedsApproval | None, call: Call, *, is_trusted: bool = False
    ) -> None:
        self._name = name
        self._is_trusted = is_trusted
        self._session = session
        self._approval = approval
        self._call = call
        self._definitions: dict[str, bytes] = {}
        self._offered: dict[str, str] = {}
        """The tools' names in the session, by their names at the server."""

    @property
    def names(self) -> list[str]:
        """Return the names of the tools in the session."""
        return list(self._offered.values())

    async def update(self, listed: Iterable[Any]) -> None:
        """Apply the server's list of tools (`mcp.types.Tool`). New tools are added, and missing tools are removed."""
        definitions: dict[str, bytes] = {}
        changed: list[Any] = []
        for tool in listed:
            definition = self._definition(tool)
            if definition is None or tool.name in definitions:
                continue
            if len(definitions) == TOOLS:
                logger.warning(
                    "the MCP server %r has more than %d tools; further tools are not offered", self._name, TOOLS
                )
                break
            definitions[tool.name] = definition
            if self._definitions.get(tool.name) != definition:
                changed.append(tool)
        for name in [name for name in self._definitions if definitions.get(name) != self._definitions[name]]:
            self._remove(name)
        for tool in changed:
            await self._add(tool, definitions[tool.name])

    def _definition(self, tool: Any) -> bytes | None:
        try:
            definition = codec.encode(tool.model_dump(by_alias=True, mode="json", exclude_none=True))
        except EncodeError:
            definition = b""
        if definition and len(definition) <= _SCHEMA:
            return definition
        logger.warning("a tool of the MCP server %r is not offered, because its definition is too long", self._name)
        return None

    async def _add(self, tool: Any, definition: bytes) -> None:
        async def function(arguments: dict[str, Any], call: ToolContext) -> Output:
            return await self._call(tool.name, arguments, call)

        try:
            # Checking a schema takes milliseconds, and there may be many.
            parameters = await to_thread.run_sync(SchemaParameters, function, tool.input_schema)
        except (UsageError, RecursionError) as error:
            logger.warning("a tool of the MCP server %r is not offered: %s", self._name, error)
            return
        if self._session.closed:
            return
        hints = tool.annotations
        reads = self._is_trusted and hints is not None and hints.read_only_hint is True
        name = exposed(self._name, tool.name, self._session.tools.__contains__)
        made = Tool(
            function,
            name=name,
            title=_title(self._name, tool.name, tool.title or (hints and hints.title)),
            description=shortened(tool.description or "", _DESCRIPTION),
            kind="read" if reads else "other",
            approval=self._asks(tool, reads),
            approval_key=self._always(tool.name, definition),
            parameters=parameters,
        )
        self._session.tools.add(made)
        self._offered[tool.name] = name
        self._definitions[tool.name] = definition

    def _always(self, tool: str, definition: bytes) -> Always:
        """Return the key of a lasting approval. The key has a hash of the definition, so a tool whose description
        changes needs a new approval."""
        parts = ["mcp", quote(self._name, safe=""), quote(tool, safe=""), sha256(definition).hexdigest()]
        return Always(
            "/".join(parts),
            f"all calls of {_short(tool)} of {_short(self._name)}, as long as its description stays the same",
        )

    def _asks(self, tool: Any, reads: bool) -> bool:
        if callable(self._approval):
            return bool(self._approval(self._name, tool))
        return not reads if self._approval is None else self._approval

    def _remove(self, name: str) -> None:
        del self._definitions[name]
        offered = self._offered.pop(name)
        # The author may have removed it already.
        if offered in self._session.tools:
            self._session.tools.remove(offered)


def _short(name: str) -> str:
    """Return a name as a code span that no character of the name can end. The span is short enough for a label with two
    names."""
    return code(one_line(name, _LABEL, exact=True))


def _title(server: str, tool: str, title: str | None) -> str:
    """Return the title of a call for the user. It always has the real names, as code in one line, whatever title the
    server gives."""
    names = f"{code(one_line(server, _TITLE, exact=True))}: {code(one_line(tool, _TITLE, exact=True))}"
    return names if not title or title == tool else f"{names} ({code(one_line(title, _TITLE))})"


def exposed(server: str, tool: str, is_taken: Callable[[str], bool]) -> str:
    """Return a name that models accept and that no other tool has, made of the names of server and tool. A name that
    had to be changed for that ends in a hash, which is always the same for the same tool."""
    plain = f"{server}_{tool}"
    name = "".join(letter if letter in CHARACTERS else "_" for letter in plain)
    if name == plain and len(name) <= LONGEST and not is_taken(name):
        return name
    digest = sha256(f"{server}\0{tool}".encode(errors="replace")).hexdigest()
    for length in (8, 16, 32):
        name = f"{name[: LONGEST - length - 1]}_{digest[:length]}"
        if not is_taken(name):
            break
    return name


_ASKED: Final = 4
"""The most questions of one server that wait for the user. Further questions are declined."""

_QUESTION: Final = 2_000
"""The most characters of a question, and of each text of its form."""

_WORDS: Final = frozenset({"title", "description"})
"""The members of a form that are text for the user."""


class ServerQuestions:
    """Sends the questions of the server `name` (MCP, Elicitation) to the client (ACP, Elicitation).

    A question belongs to the server's running tool calls. Without a running call it is declined. It is withdrawn when
    the last call has ended.
    """

    def __init__(self, name: str, session: Session) -> None:
        self._name = name
        self._client = session.client
        self._calls: list[ToolContext] = []
        self._waiting: set[anyio.CancelScope] = set()

    @property
    def possible(self) -> bool:
        """Whether the client supports any elicitation."""
        return self._client.capabilities.elicitation is not None

    @contextmanager
    def during(self, call: ToolContext) -> Generator[None]:
        """Enter a block in which the tool call runs, so that questions may belong to the call."""
        self._calls.append(call)
        try:
            yield
        finally:
            self._calls.remove(call)
            if not self._calls:
                for scope in self._waiting:
                    scope.cancel()

    async def ask(self, context: Any, params: Any) -> Any:
        """The official package's callback. Returns the user's answer, or a decline. `context` is unused."""
        result = import_module("mcp_types").ElicitResult
        if not self._calls or len(self._waiting) >= _ASKED:
            return result(action="decline")
        answer: Any = None
        with anyio.CancelScope() as scope:
            self._waiting.add(scope)
            try:
                answer = await self._asked(params)
            except (AcpError, ValidationError) as error:
                logger.warning(
                    "an elicitation of the MCP server %r was declined because of %s", self._name, type(error).__name__
                )
                return result(action="decline")
            finally:
                self._waiting.discard(scope)
        action = getattr(answer, "action", None)
        if action == "accept":
            return result(action="accept", content=getattr(answer, "content", None))
        return result(action="decline" if action == "decline" else "cancel")

    async def _asked(self, params: Any) -> Any:
        message = f"{one_line(self._name, _TITLE, exact=True)}: {escape(params.message[:_QUESTION])}"
        call = self._calls[0].id if len(self._calls) == 1 else None
        if params.mode == "url":
            if not _is_address(params.url):
                raise UsageError("the URL of the question is not an http or https URL")
            id = params.elicitation_id or uuid4().hex
            return await self._client.elicit_url(message, params.url, elicitation_id=id, tool_call_id=call)
        form = ElicitationSchema.from_wire(_harmless(params.requested_schema))
        return await self._client.elicit_form(message, form, tool_call_id=call)


_ADDRESS: Final = re.compile(r"https?://[^/?#@\\]+(?:[/?#].*)?", re.IGNORECASE)


def _is_address(url: str) -> bool:
    """Whether the user may be sent to this URL: to a web page, and not to a file or a program. Every character is
    visible, and the host name is at the beginning."""
    is_plain = len(url) <= _QUESTION and url.isascii() and url.isprintable() and " " not in url
    return is_plain and _ADDRESS.fullmatch(url) is not None


def _harmless(form: Any) -> Any:
    """Return a server's form with each text on one line, and without control characters or changes of direction."""
    if isinstance(form, dict):
        named = cast("dict[str, Any]", form)
        return {
            name: one_line(value, _QUESTION) if name in _WORDS and isinstance(value, str) else _harmless(value)
            for name, value in named.items()
        }
    return [_harmless(item) for item in cast("list[Any]", form)] if isinstance(form, list) else form
