"""Rules for all messages that the agent sent on version 2, checked against JSON-RPC and the schema of version 2."""

from __future__ import annotations

from acp_conformance.agent.observed import Observed
from acp_conformance.agent.v2.registry import SOURCE, case, v2_cases
from acp_conformance.core.case import MUST, SHOULD
from acp_conformance.core.result import Level
from acp_conformance.core.violation import Rule


def _rule(id: str, title: str, *rules: Rule, section: str, level: Level = MUST) -> None:
    """Register a case that passes if no message on version 2 breaks one of `rules`."""

    async def judge(observed: Observed) -> None:
        observed.forbid(*rules, protocol=2)

    judge.__doc__ = title
    case(id, level=level, source=SOURCE, section=section, whole_run=True)(judge)


_rule(
    "v2-envelope/messages",
    "Every line is one message of JSON-RPC 2.0, and never a batch.",
    *("utf-8", "json", "newline", "batch", "message", "version", "kind", "id-type", "null-id", "params-structured"),
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
_rule("v2-schema/paths", "Every file path is absolute.", "absolute-path", section="Overview")
_rule("v2-schema/dates", "The time of a session's last activity is a timestamp of RFC 3339.", "date", section="Schema")
_rule("v2-schema/base64", "The output of terminals, images and other data are in base64.", "base64", section="Schema")
_rule(
    "v2-schema/sessions",
    "Every session that the agent names was created by the agent, or named by the client.",
    "session",
    section="Session setup",
)
# The specification says MUST NOT, of both. A member or a name of a later schema looks the same.
_rule(
    "v2-schema/custom-members",
    "Parameters, results and updates have no custom members: those go into `_meta`.",
    "extra-member",
    section="Extensibility",
    level=SHOULD,
)
_rule(
    "v2-schema/custom-names",
    "Kinds, states, reasons and types that the schema does not have begin with an underscore.",
    "custom-name",
    section="Extensibility",
    level=SHOULD,
)
_rule(
    "v2-updates/commands", "The names of commands differ, and have no whitespace.", "command", section="Slash commands"
)
_rule(
    "v2-updates/background",
    "Background work is announced before it is listed, ends before it is left out, is listed once, and on every state.",
    "background",
    section="Background work",
)
_rule(
    "v2-updates/offers-end",
    "When the session is idle, tool calls and terminals that have ended no longer offer to be cancelled.",
    "offer",
    section="Tool call cancellation",
    level=SHOULD,
)
_rule(
    "v2-updates/terminal-ids",
    "The id of a terminal is not used again for another command.",
    "terminal-reused",
    section="Terminals",
)
_rule(
    "v2-updates/patches",
    "A git patch has absolute paths without a prefix, those of its changes, and no commit or e-mail around it.",
    "patch",
    section="Diffs",
)
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


@case("v2-options/values", level=MUST, source=SOURCE, section="Config options", whole_run=True)
async def values(observed: Observed) -> None:
    """The current value of an option is one of its values, and each value is there once."""
    observed.forbid("config-option", protocol=2, told_by=("v2-options/unknown-value", "v2-options/unknown-type"))


@case("v2-profile/situation", level=MUST, source="acp-conformance", section="Profiles", whole_run=True)
async def situation(observed: Observed) -> None:
    """Every situation that the profile names works on version 2."""
    await observed.situations_come_about(2, {need for case in v2_cases for need in case.needs})
