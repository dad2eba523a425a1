"""Rules for all messages that the agent sent on version 2, checked against JSON-RPC and the schema of version 2."""

from __future__ import annotations

from acp_conformance.agent.observed import Observed
from acp_conformance.agent.v2.registry import SOURCE, case, v2_cases
from acp_conformance.core.case import MUST
from acp_conformance.core.violation import Rule


def _rule(id: str, title: str, *rules: Rule, section: str) -> None:
    """Register a case that passes if no message on version 2 breaks one of `rules`."""

    async def judge(observed: Observed) -> None:
        observed.forbid(*rules, protocol=2)

    judge.__doc__ = title
    case(id, level=MUST, source=SOURCE, section=section, whole_run=True)(judge)


_rule(
    "v2-envelope/messages",
    "Every line is one message of JSON-RPC 2.0, and never a batch.",
    *("utf-8", "json", "newline", "batch", "message", "version", "kind", "id-type", "params-structured"),
    section="Transports",
)
_rule("v2-envelope/error-objects", "Every error has an integer code and a message.", "error-object", section="Errors")
_rule(
    "v2-envelope/answers",
    "Every response answers a request that was made, and each request is answered once.",
    *("unasked-answer", "answered-twice"),
    section="Transports",
)
_rule("v2-envelope/own-ids", "A request does not take the id of an open request.", "reused-id", section="Transports")
_rule("v2-schema/results", "Every result has the shape that its method's has.", "result", section="Schema")
_rule(
    "v2-schema/requests",
    "The parameters of every request and notification to the client have the shape that its method's have.",
    "request",
    section="Schema",
)
_rule("v2-schema/updates", "Every session/update has the shape of its kind.", "update", section="Schema")
_rule(
    "v2-gating/methods",
    "Each method is of version 2, or begins with an underscore, and is sent to the right side.",
    *("method-name", "direction"),
    section="Extensibility",
)
_rule(
    "v2-gating/announced",
    "The client gets only requests for announced features.",
    "capability",
    section="Initialization",
)


@case("v2-profile/situation", level=MUST, source="acp-conformance", section="Profiles", whole_run=True)
async def situation(observed: Observed) -> None:
    """Every situation that the profile names works on version 2."""
    await observed.situations_come_about(2, {need for case in v2_cases for need in case.needs})
