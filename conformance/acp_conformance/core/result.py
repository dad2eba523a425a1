"""The data of a run, which every report reads. This module does not know how cases run or how reports look."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Literal, TypedDict

from .members import published

SUITE = "6"
"""The version of the rules. It increases when a case is added, removed or judged differently."""

TEXT_LIMIT = 4_000
"""The most characters that are kept of a line of the transcript, and of the end of the subject's standard error."""


class Level(StrEnum):
    """How binding a rule is. MUST and SHOULD have their meaning in the specification. CHOICE means that the
    specification permits several behaviours."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    CHOICE = "CHOICE"


class Verdict(StrEnum):
    """The outcome of a case."""

    PASS = "pass"
    FAIL = "fail"
    """A MUST is broken."""
    WARN = "warn"
    """A SHOULD is broken."""
    SKIP = "skip"
    """The case could not be tried. The reason names the missing part, such as a situation of the profile."""
    NOT_APPLICABLE = "n/a"
    """The rule is about a capability that the subject does not announce."""
    CHOICE = "choice"
    """The specification leaves the behaviour open. The reason describes the subject's choice."""
    SLOW = "slow"
    """The expected message came, but only after the time-out of the suite. That breaks no rule, and proves none."""
    UNREACHED = "not-reached"
    """A fault of another case came before the rule could be tried (see `CaseResult.root`)."""
    ERROR = "error"
    """The suite could not run the case, because the command does not start."""
    SUITE_ERROR = "suite-error"
    """The suite itself is at fault, which proves nothing about the subject."""


Line = TypedDict("Line", {"at": float, "from": Literal["suite", "subject"], "text": str})
"""One line of a conversation: seconds since its start, the writer, and the text without its newline."""


class Subject(TypedDict):
    """The name and version that the subject sent in its `initialize` message; None if it sent none."""

    name: str | None
    version: str | None
    protocolVersion: int | None


@dataclass(frozen=True, slots=True)
class CaseResult:
    """One case of one run."""

    id: str
    """`group/kebab-words`."""
    group: str
    title: str
    """The rule, as a sentence."""
    level: Level
    section: str
    """The place of the rule in `source`, such as "Prompt Turn, Cancellation"."""
    source: str
    """Short name of the document: "ACP v1", "JSON-RPC 2.0", "RFD request-cancellation"."""
    verdict: Verdict
    reason: str = ""
    """One line that says why the case failed or was skipped, or which choice the subject made; empty on a pass."""
    root: str = ""
    """The id of the case about the fault that kept this rule from being tried."""
    cause: str = ""
    """The id of the first case with the same cause, which may be this case; empty if no other case has the cause. See
    `core.causes`."""
    seconds: float = 0.0
    transcript: Sequence[Line] = field(default_factory=tuple)
    guilty: int | None = None
    """The line of the transcript that breaks the rule; None if that is not one line."""
    stderr: str = ""
    """The end of the subject's standard error."""
    protocol: int = 1
    """The version of the protocol that was judged."""


@dataclass(frozen=True, slots=True)
class Run:
    """All cases of one subject."""

    kind: Literal["agent", "client"]
    command: Sequence[str]
    subject: Subject | None
    started: str
    """ISO 8601, UTC."""
    seconds: float
    cases: Sequence[CaseResult]
    interrupted: bool = False
    """Whether the run was interrupted before it had tried every case. The other cases are skipped."""
    suite: str = SUITE

    def counts(self) -> dict[Verdict, int]:
        """Return the number of cases that ended in each verdict. Every verdict is a key, in the order of `Verdict`."""
        counts = dict.fromkeys(Verdict, 0)
        for case in self.cases:
            counts[case.verdict] += 1
        return counts

    @property
    def protocols(self) -> Sequence[int]:
        """Return the judged versions of the protocol. The subject may have answered another version (see `subject`)."""
        return sorted({case.protocol for case in self.cases})

    @property
    def tried(self) -> int:
        """Return the number of cases that found out whether the subject keeps their rule, or which behaviour it
        chooses."""
        counts = self.counts()
        return sum(counts[each] for each in (Verdict.PASS, Verdict.FAIL, Verdict.WARN, Verdict.CHOICE))

    @property
    def applicable(self) -> int:
        """Return the number of cases that are about features that the subject announces."""
        return len(self.cases) - self.counts()[Verdict.NOT_APPLICABLE]

    def broken(
        self, require: Level = Level.MUST, known: Container[str] = (), passed: Container[str] = ()
    ) -> Sequence[str]:
        """Return the ids of the cases that count as failed. For the arguments see `exit_code`."""
        broken = (Verdict.FAIL,) if require is Level.MUST else (Verdict.FAIL, Verdict.WARN)
        failed = [case.id for case in self.cases if case.verdict in broken and case.id not in known]
        return failed + [case.id for case in self.cases if case.verdict is Verdict.SKIP and case.id in passed]

    def exit_code(self, require: Level = Level.MUST, known: Container[str] = (), passed: Container[str] = ()) -> int:
        """Return the exit code of the process that made the run.

        It is 130 if the run was interrupted, or else 1 if a required rule is broken, or else 3 if the suite itself was
        at fault. Otherwise it is 2 if a case could not be run, or if no case could be tried, and 0 in all other runs.

        Args:
            require: MUST or SHOULD. With SHOULD a warning counts as a failure.
            known: The ids of cases that may fail.
            passed: The ids of cases that may not be skipped, because an earlier run passed them.
        """
        if self.interrupted:
            return 130
        counts = self.counts()
        if self.broken(require, known, passed):
            return 1
        if counts[Verdict.SUITE_ERROR]:
            return 3
        return 2 if counts[Verdict.ERROR] or not self.tried else 0

    def to_json(self) -> dict[str, Any]:
        """Return the run as JSON values, with the names of the fields as keys."""
        data = asdict(self)
        data["command"] = list(self.command)
        data["cases"] = [
            {
                **asdict(case),
                "transcript": [dict(line) for line in case.transcript],
            }
            for case in self.cases
        ]
        derived = {"protocols": self.protocols, "schema": str(published()), "tried": self.tried}
        return {"suite": data.pop("suite"), **derived, "applicable": self.applicable, **data}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Run:
        """The inverse of `to_json`.

        Raises:
            ValueError: `data` is not a result of `to_json`, or is from a suite of another version.
        """
        if not isinstance(data, Mapping) or data.get("suite") != SUITE:
            raise ValueError(f"not a report of this suite (version {SUITE})")
        try:
            cases = tuple(
                CaseResult(
                    **{
                        **case,
                        "level": Level(case["level"]),
                        "verdict": Verdict(case["verdict"]),
                        "protocol": int(case.get("protocol", 1)),
                    }
                )
                for case in data["cases"]
            )
            derived = ("protocols", "schema", "tried", "applicable")
            fields = {key: value for key, value in data.items() if key not in derived}
            return cls(**{**fields, "cases": cases})
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a report of this suite: {error}") from error


def clean(text: str) -> str:
    """Return `text` with surrogates escaped, because UTF-8 cannot encode surrogates."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def shorten(text: str) -> str:
    """Return at most `TEXT_LIMIT` characters of `text`, with a note about the omitted part."""
    if len(text) <= TEXT_LIMIT:
        return text
    return f"{text[:TEXT_LIMIT]}... ({len(text) - TEXT_LIMIT:,} more characters)"
