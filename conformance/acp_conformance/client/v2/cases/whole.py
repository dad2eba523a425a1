"""Rules for every message that a client of version 2 sends, judged over the whole run."""

from acp_conformance.client.checks import Seen
from acp_conformance.client.v2.registry import SOURCE, case
from acp_conformance.core.case import MUST, SHOULD, fail
from acp_conformance.core.result import Level


def _rule(id: str, title: str, *rules: str, section: str, level: Level = MUST) -> None:
    """Register a case that passes if no message broke one of `rules`."""

    async def judge(seen: Seen) -> None:
        if found := seen.against([f"v2-{rule}" for rule in rules]):
            fail(found)

    judge.__doc__ = title
    case(id, level=level, source=SOURCE, section=section, whole_run=True)(judge)


_rule(
    "v2-envelope/objects",
    "Every line of a client is one JSON object, and never a batch.",
    *("utf-8", "json", "message", "batch"),
    section="Transports",
)
_rule(
    "v2-envelope/kind",
    "Every message is a request, a notification or a response of JSON-RPC 2.0, and only one of them.",
    *("version", "kind", "id-type", "null-id", "params-structured"),
    section="Transports",
)
_rule(
    "v2-envelope/own-ids",
    "A request does not take the id of an open request.",
    "reused-id",
    section="Transports",
)
_rule("v2-envelope/error", "An error has an integer code and a message.", "error-object", section="Errors")
_rule(
    "v2-envelope/answers",
    "A response answers a request of the agent, and each request is answered once.",
    *("unasked-answer", "answered-twice"),
    section="Transports",
)
_rule(
    "v2-schema/params",
    "The params of every request and notification are as the schema has them.",
    "request",
    section="Schema",
)
_rule("v2-schema/results", "Every result is as the schema has it.", "result", section="Schema")
# The specification says MUST NOT, of both. A member or a name of a later schema looks the same.
_rule(
    "v2-schema/custom-members",
    "Params and results have no custom members: those go into _meta.",
    "extra-member",
    section="Extensibility",
    level=SHOULD,
)
_rule(
    "v2-schema/custom-names",
    "Types and names that the schema does not have begin with an underscore.",
    "custom-name",
    section="Extensibility",
    level=SHOULD,
)
_rule(
    "v2-gating/methods",
    "Each method is of version 2, or begins with an underscore, and is sent to the right side.",
    *("method-name", "direction"),
    section="Extensibility",
)
_rule(
    "v2-gating/announced",
    "Methods, content, transports and directories are used only if the agent has announced them.",
    *("capability", "content", "mcp", "directories"),
    section="Initialization",
)
