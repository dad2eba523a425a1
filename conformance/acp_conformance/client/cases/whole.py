"""Rules for every message that a client sends, judged over the whole run."""

from acp_conformance.client.checks import Seen
from acp_conformance.client.registry import case
from acp_conformance.core.case import MUST, SHOULD, Level, fail


def _rule(id: str, title: str, *rules: str, source: str, section: str, level: Level = MUST) -> None:
    """Register a case that passes if no message broke one of `rules`."""

    async def judge(seen: Seen) -> None:
        if found := seen.against(rules):
            fail(found)

    judge.__doc__ = title
    case(id, level=level, source=source, section=section, whole_run=True)(judge)


_ACP, _JSON_RPC = "ACP v1", "JSON-RPC 2.0"

_rule("envelope/utf-8", "Every line is UTF-8.", "utf-8", source=_ACP, section="Transports")
_rule("envelope/json", "Every line is JSON.", "json", source=_ACP, section="Transports, stdio")
_rule("envelope/object", "Every message is an object.", "message", source=_JSON_RPC, section="Overview")
_rule("envelope/no-batch", "Messages are sent one by one.", "batch", source=_ACP, section="Transports, stdio")
_rule("envelope/version", "Every message has jsonrpc 2.0.", "version", source=_JSON_RPC, section="Request object")
_rule(
    "envelope/kind",
    "Every message is a request, a notification or a response, and only one of them.",
    *("kind", "params-structured"),
    source=_JSON_RPC,
    section="Request object",
)
_rule("envelope/id", "Ids are strings, integers or null.", "id-type", source=_JSON_RPC, section="Request object")
_rule(
    "envelope/null-id",
    "The id of a request is not null.",
    "null-id",
    source=_ACP,
    section="Schema, RequestId",
    level=SHOULD,
)
_rule(
    "envelope/own-ids",
    "A request does not take the id of an open request.",
    "reused-id",
    source=_JSON_RPC,
    section="Request object",
)
_rule(
    "envelope/error",
    "An error has an integer code and a message.",
    "error-object",
    source=_JSON_RPC,
    section="Error object",
)
_rule(
    "envelope/answers-what-was-asked",
    "A response answers a request of the agent.",
    "unasked-answer",
    source=_JSON_RPC,
    section="Response object",
)
_rule(
    "envelope/answers-once",
    "A request of the agent is answered once.",
    "answered-twice",
    source=_JSON_RPC,
    section="Response object",
)
_rule(
    "schema/params",
    "The params of every request and notification are as the schema has them.",
    *("request", "update"),
    source=_ACP,
    section="Schema",
)
_rule("schema/results", "Every result is as the schema has it.", "result", source=_ACP, section="Schema")
_rule(
    "schema/custom-members",
    "Params and results have no custom members: those go into _meta.",
    "extra-member",
    source=_ACP,
    section="Extensibility, The _meta Field",
    # The specification says MUST NOT. A member of a newer schema looks the same.
    level=SHOULD,
)
_rule(
    "gating/known-methods",
    "Methods that are not of the protocol begin with an underscore.",
    "method-name",
    source=_ACP,
    section="Extensibility, Extension Methods",
)
_rule(
    "gating/direction",
    "Requests are sent as requests, notifications as notifications, and to the side that they are for.",
    "direction",
    source=_ACP,
    section="Overview",
)
_rule(
    "gating/announced-methods",
    "Methods are used only if the agent has announced them.",
    "capability",
    source=_ACP,
    section="Initialization, Capabilities",
)
_rule(
    "gating/announced-content",
    "A prompt has only content that the agent has announced.",
    "content",
    source=_ACP,
    section="Prompt Turn, User Message",
)
_rule(
    "gating/announced-transports",
    "MCP servers are reached only by transports that the agent has announced.",
    "mcp",
    source=_ACP,
    section="Session Setup, Checking Transport Support",
)
_rule(
    "gating/announced-directories",
    "Additional directories are named only if the agent has announced them.",
    "directories",
    source=_ACP,
    section="Session Setup, Additional Workspace Roots",
)
_rule(
    "cancel-request/name",
    "Requests are withdrawn by $/cancel_request, by no other name.",
    "cancel-spelling",
    source=_ACP,
    section="Cancellation, $/cancel_request Notification",
    level=SHOULD,
)
