"""Which case catches which fault, and the clients that have them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from acp_conformance.client import cases, profile
from acp_conformance.client.pace import Pace
from acp_conformance.client.run import run
from acp_conformance.client.stage import Setting
from acp_conformance.core.process import Start, spawn
from acp_conformance.core.result import CaseResult

FOLDER = Path(__file__).parents[1] / "faulty_clients"

client_cases = cases.load()

PLAYED = list(dict.fromkeys(case.group for case in client_cases if not case.whole_run))
"""The groups of cases that are played, in their order."""

WHOLE_RUN = [case.id for case in client_cases if case.whole_run]

PROFILE = profile.parse(
    {
        "situations": {
            "approve": {"stdin": ["{number}"]},
            "reject": {"stdin": ["{number}"]},
            "cancel": {"signal": "SIGINT"},
            "again": {"stdin": ["go on"], "arguments": ["--again"]},
        }
    }
)

FAULTS: dict[str, str] = {
    "opening/skips-initialize": "initialize/first",
    "opening/does-not-wait": "initialize/awaits-the-answer",
    "opening/version-is-a-string": "initialize/version-is-an-integer",
    "opening/names-nothing": "initialize/names-itself",
    "opening/takes-any-version": "initialize/unsupported-version",
    "opening/needs-everything": "initialize/bare-answer",
    "opening/knows-all-capabilities": "initialize/unknown-capabilities",
    "opening/relative-cwd": "sessions/absolute-cwd",
    "opening/no-mcp-servers": "sessions/mcp-servers",
    "opening/invents-a-login": "sessions/authenticates-as-offered",
    "opening/logs-in-by-terminal": "sessions/terminal-login-is-no-request",
    "opening/changes-the-session-id": "turns/session-id",
    "opening/prompts-before-the-session": "turns/after-the-session",
    "ending/hangs-on-an-error": "turns/failed-prompt",
    "messages/answers-every-update": "updates/known-kinds",
    "messages/dies-of-meta": "updates/meta",
    "messages/dies-of-unknown-updates": "updates/unknown-kind",
    "messages/dies-of-unknown-fields": "updates/unknown-fields",
    "messages/dies-of-other-sessions": "updates/unknown-session",
    "messages/dies-of-many": "updates/many",
    "messages/unknown-is-internal": "requests/unknown-method",
    "messages/silent-about-unknown": "requests/unknown-method",
    "messages/ignores-dollar": "requests/dollar-method",
    "messages/silent-about-unannounced": "requests/not-announced",
    "messages/guesses-params": "requests/invalid-params",
    "messages/reads-ids-as-numbers": "ids/strings",
    "messages/reads-ids-as-strings": "ids/integers",
    "messages/reads-ids-as-doubles": "ids/int64",
    "messages/answers-notifications": "notifications/unknown",
    "messages/answers-completions": "notifications/unknown-elicitation",
    "messages/answers-bad-updates": "notifications/invalid-params",
    "messages/short-lines": "framing/long-line",
    "messages/one-message-a-read": "framing/several-at-once",
    "messages/wants-no-whitespace": "framing/whitespace",
    "messages/does-not-read-stderr": "framing/standard-error",
    "messages/hangs-on-text": "bad-input/not-json",
    "messages/hangs-on-numbers": "bad-input/no-message",
    "messages/hangs-on-bytes": "bad-input/not-utf8",
    "messages/answers-responses": "bad-input/unasked-response",
    "permission/invents-an-option": "permission/offered-option",
    "permission/takes-the-first": "permission/approval-allows",
    "permission/never-rejects": "permission/rejection-rejects",
    "permission/mixes-them-up": "permission/each-its-own",
    "permission/leaves-them-open": "permission/cancelled",
    "permission/allows-at-the-end": "permission/cancelled",
    "permission/answers-with-an-error": "permission/cancelled",
    "permission/cancels-only-one": "permission/all-cancelled",
    "permission/answers-twice": "permission/cancelled-once",
    "permission/leaves-the-dialog-open": "permission/dialog-closed",
    "permission/asks-too-late": "permission/late",
    "permission/cancel-is-a-request": "cancel/is-a-notification",
    "permission/cancels-no-session": "cancel/is-a-notification",
    "permission/hangs-up-after-cancel": "cancel/accepts-updates",
    "permission/hangs-after-the-answer": "cancel/confirmed",
    "permission/withdrawal-is-an-error": "cancel-request/allowed-answer",
    "permission/answers-withdrawn-twice": "cancel-request/answers-once",
    "permission/withdrawal-is-an-error-for-permissions": "cancel-request/permission",
    "permission/answers-unknown-withdrawals": "cancel-request/unknown-id",
    "permission/answers-late-withdrawals": "cancel-request/already-answered",
    "permission/answers-bad-withdrawals": "cancel-request/malformed",
    "permission/withdraws-by-text": "cancel-request/same-type",
    "permission/withdraws-numbers-as-text": "cancel-request/same-type",
    "serving/reads-as-text": "files/keeps-line-ends",
    "serving/writes-as-text": "files/writes-line-ends",
    "serving/tells-only-who-waits": "terminals/exit-status-with-output",
    "serving/tells-the-end-once": "terminals/waiting-after-the-end",
    "ending/forgets-its-session": "turns/prompt-after-a-failed-one",
    "ending/stays-busy": "turns/prompt-after-a-failed-one",
    "ending/prompts-meanwhile": "turns/one-at-a-time",
    "ending/prompts-while-it-stops": "turns/one-at-a-time-at-cancel",
    "serving/adds-a-line": "files/reads",
    "serving/counts-from-zero": "files/from-a-line",
    "serving/ignores-the-limit": "files/some-lines",
    "serving/drops-the-last-newline": "files/more-lines-than-there-are",
    "serving/one-terminal": "terminals/two-at-once",
    "serving/shows-only-standard-output": "terminals/standard-error",
    "serving/killed-is-done": "terminals/exit-status-after-kill",
    "messages/short-requests": "framing/long-request",
    "messages/dies-of-unknown-tool-calls": "updates/unknown-tool-call",
    "serving/limit-is-a-line": "files/some-lines",
    "serving/missing-is-empty": "files/missing",
    "serving/dies-of-missing": "files/missing",
    "serving/takes-relative-paths": "files/relative-path",
    "serving/writes-only-what-is-there": "files/creates",
    "serving/answers-forms-with-ok": "requests/elicitation",
    "serving/says-it-was-written": "files/unwritable",
    "serving/appends": "files/replaces",
    "serving/create-waits": "terminals/create-does-not-wait",
    "serving/forgets-output": "terminals/output",
    "serving/every-exit-is-zero": "terminals/exit-status",
    "serving/arguments-through-a-shell": "terminals/arguments",
    "serving/own-environment": "terminals/environment",
    "serving/own-folder": "terminals/environment",
    "serving/cuts-characters": "terminals/output-limit",
    "serving/keeps-the-beginning": "terminals/output-limit",
    "serving/one-at-a-time": "terminals/waiting-holds-nothing-up",
    "serving/kill-releases": "terminals/killed-is-still-there",
    "serving/released-is-there": "terminals/released-is-gone",
    "serving/release-lets-run": "terminals/release-kills",
    "ending/hangs-without-its-agent": "closing/agent-dies-in-a-turn",
    "ending/hangs-at-the-start": "closing/agent-dies-at-the-start",
    "ending/waits-for-the-exit": "closing/agent-closes-its-output",
    "ending/stays-after-its-turn": "closing/lets-the-agent-go",
    "ending/leaves-its-agent": "closing/ends-an-agent-that-stays",
}
"""From the fault to the case that has to catch it."""

SEEN: dict[str, tuple[str, str]] = {
    "messages/writes-latin": ("envelope/utf-8", "turns/session-id"),
    "messages/writes-a-log": ("envelope/json", "turns/session-id"),
    "messages/writes-numbers": ("envelope/object", "turns/session-id"),
    "messages/sends-batches": ("envelope/no-batch", "turns/session-id"),
    "messages/no-version": ("envelope/version", "turns/session-id"),
    "messages/result-and-error": ("envelope/kind", "requests/unknown-method"),
    "messages/ids-are-null": ("envelope/null-id", "turns/session-id"),
    "messages/ids-are-floats": ("envelope/id", "turns/session-id"),
    "messages/uses-an-id-twice": ("envelope/own-ids", "updates/known-kinds"),
    "messages/error-without-message": ("envelope/error", "requests/unknown-method"),
    "messages/answers-every-update": ("envelope/answers-what-was-asked", "updates/known-kinds"),
    "permission/answers-withdrawn-twice": ("envelope/answers-once", "cancel-request/answers-once"),
    "opening/prompt-is-a-string": ("schema/params", "turns/session-id"),
    "opening/adds-members": ("schema/custom-members", "turns/session-id"),
    "messages/result-of-another-shape": ("schema/results", "files/reads"),
    "serving/negative-exit-codes": ("schema/results", "terminals/killed-is-still-there"),
    "opening/method-of-its-own": ("gating/known-methods", "turns/session-id"),
    "permission/cancel-is-a-request": ("gating/direction", "cancel/is-a-notification"),
    "opening/lists-sessions": ("gating/announced-methods", "turns/session-id"),
    "opening/sends-an-image": ("gating/announced-content", "turns/session-id"),
    "opening/unannounced-transport": ("gating/announced-transports", "turns/session-id"),
    "opening/unannounced-directories": ("gating/announced-directories", "turns/session-id"),
    "permission/another-name": ("cancel-request/name", "cancel/is-a-notification"),
}
"""From the fault to the case of the whole run that has to catch it, and a case in which it shows."""

UNUSUAL = [
    "unusual/looks-first",
    "unusual/declines-forms",
    "unusual/strips-the-environment",
    "unusual/prompts-twice",
    "unusual/kills-its-agent",
    "unusual/starts-another-agent",
]
"""Clients that do no wrong, each in a way of its own."""

SLOW = ["messages/answers-late", "unusual/takes-its-time"]
"""Clients that are slow: the one once it has begun, the other from its start."""

UNBOUNDED = ["messages/floods", "messages/never-ends-its-line"]
"""Clients that write without end: no rule is broken by that, and the suite has to bear it."""


def command(name: str) -> list[str]:
    """The command of a faulty client, or of the one that is `clean`."""
    return [sys.executable, str(FOLDER), name, "{agent}"]


async def judged(
    command: Sequence[str],
    *ids: str,
    patience: float = 3.0,
    profile: profile.Profile = PROFILE,
    start: Start = spawn,
) -> dict[str, CaseResult]:
    """The results of some cases or groups, or of all."""
    chosen = client_cases.matching(ids)
    result = await run(Setting(command, profile, Pace(patience), start=start), chosen, jobs=2)
    return {case.id: case for case in result.cases}
