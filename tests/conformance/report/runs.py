"""Runs for the reports to show, among them what a subject bent on mischief would say."""

from typing import Literal

from acp_conformance.core.result import CaseResult, Level, Line, Run, Verdict

HOSTILE = (
    "<script>alert(1)</script> </details></style>\"' onload=x &amp; ]]> --> \x1b[2J\x1b]0;title\x07 \x00\x08\x7f"
    "\x9b31m \ud800 \ufffe \u202egnirts\u2066 \u2028\u2029 \r\n%s {0} 漢字\u0301 🧨"
)
"""Markup, ends of elements, escape sequences, controls, half characters, noncharacters, text turned around."""

LEVELS = {Verdict.WARN: Level.SHOULD, Verdict.CHOICE: Level.CHOICE}


def line(text: str, who: Literal["suite", "subject"] = "subject", at: float = 0.25) -> Line:
    return {"at": at, "from": who, "text": text}


def result(id: str, verdict: Verdict = Verdict.PASS, reason: str = "", **more: object) -> CaseResult:
    fields: dict[str, object] = {
        "group": id.partition("/")[0],
        "title": f"The rule of {id.partition('/')[2]} is kept.",
        "level": LEVELS.get(verdict, Level.MUST),
        "section": "Prompt Turn, Cancellation",
        "source": "ACP v1",
        "seconds": 0.125,
        **more,
    }
    return CaseResult(id=id, verdict=verdict, reason=reason, **fields)  # pyright: ignore[reportArgumentType]


def run(*cases: CaseResult, **more: object) -> Run:
    fields: dict[str, object] = {
        "kind": "agent",
        "command": ["agent", "--flag", "two words"],
        "subject": {"name": "sample", "version": "1.2", "protocolVersion": 1},
        "started": "2026-01-02T03:04:05.678901+00:00",
        "seconds": 12.34,
        **more,
    }
    return Run(cases=cases, **fields)  # pyright: ignore[reportArgumentType]


def every_verdict() -> Run:
    return run(
        result("ids/a-pass"),
        result("ids/a-fail", Verdict.FAIL, 'the request "7" was answered with 7'),
        result("turns/a-warning", Verdict.WARN, "no title"),
        result("turns/a-choice", Verdict.CHOICE, "the second prompt is refused"),
        result("turns/a-skip", Verdict.SKIP, "the profile has no situation hang"),
        result("turns/another-skip", Verdict.SKIP, "the profile has no situation hang"),
        result("terminals/not-there", Verdict.NOT_APPLICABLE, "session/load is not announced"),
        result("terminals/an-error", Verdict.ERROR, "the command does not start"),
    )


def hostile() -> Run:
    """Every text that can come from a subject, or that a file to compare with can hold, is hostile."""
    said = [line(HOSTILE), line(HOSTILE, "suite")]
    cases = [
        result(
            f"group/case-{verdict.name.lower()}",
            verdict,
            HOSTILE,
            title=HOSTILE,
            section=HOSTILE,
            source=HOSTILE,
            transcript=said,
            stderr=f"first\n\tsecond {HOSTILE}\n",
        )
        for verdict in Verdict
    ]
    cases.append(result(f"{HOSTILE}/{HOSTILE}", Verdict.FAIL, HOSTILE, group=HOSTILE))
    subject = {"name": HOSTILE, "version": HOSTILE, "protocolVersion": 1}
    return run(*cases, command=["agent", HOSTILE], subject=subject, started=HOSTILE)
