"""The registry of cases, the decorator `case`, and the functions that end a case early.

A case is an async function of one argument, the conversation with the subject, that returns when the rule holds:

    @case("cancel-request/answers-once", level=MUST, source="RFD request-cancellation",
          section="Cancellation processing", needs="hang")
    async def answers_once(agent: Agent) -> None:
        "A cancelled request is answered exactly once."
        ...
        if len(prompt.answers) != 1:
            fail(f"{len(prompt.answers)} answers to one request")

A case judges one rule, which is one possible fault. Rules for every message of a conversation are checked in the
background. Cases of the whole run (`whole_run=True`) turn the findings into verdicts. Their argument is
`acp_conformance.agent.run.Observed`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType
from typing import Any, NoReturn, TypeVar

from .result import CaseResult, Level, Line, Verdict, clean

__all__ = [
    "CHOICE",
    "MUST",
    "SHOULD",
    "Case",
    "Level",
    "Outcome",
    "Registry",
    "Verdict",
    "choice",
    "fail",
    "not_applicable",
    "skip",
]

MUST, SHOULD, CHOICE = Level.MUST, Level.SHOULD, Level.CHOICE

F = TypeVar("F", bound=Callable[[Any], Awaitable[None]])

_TRYING = ("profile", "v2-profile")
"""The groups of the whole run whose cases start processes."""

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*/[a-z0-9]+(-[a-z0-9]+)*")


class Outcome(Exception):
    """Ends a case early. The `verdict` FAIL means that the rule is broken. In a case of the level SHOULD it becomes
    `warn`."""

    def __init__(self, verdict: Verdict, reason: str, root: str = "", *, at: int | None = None) -> None:
        super().__init__(reason)
        self.verdict = verdict
        self.reason = reason
        self.root = root
        """The id of the case about the actual fault, if that is a case other than this."""
        self.at = at
        """The line of the subject that breaks the rule, as an index into all its output; None if it is not one line."""


@contextmanager
def belongs_to(root: str) -> Iterator[None]:
    """Enter a block with a step that many cases need. A fault in the block belongs to the case `root`."""
    try:
        yield
    except Outcome as outcome:
        outcome.root = outcome.root or root
        raise


def fail(reason: str, *, at: int | None = None) -> NoReturn:
    """End the case because the rule is broken.

    Args:
     reason: One line with the actual and the expected behaviour.
     at: The index of the line that breaks the rule, among all lines of the subject; None if no single line does.
    """
    raise Outcome(Verdict.FAIL, reason, at=at)


def skip(reason: str) -> NoReturn:
    """End the case because it cannot be tried here. `reason` names the missing part."""
    raise Outcome(Verdict.SKIP, reason)


def not_applicable(reason: str) -> NoReturn:
    """End the case because the rule is about a capability that the subject does not announce."""
    raise Outcome(Verdict.NOT_APPLICABLE, reason)


def choice(what: str) -> NoReturn:
    """End the case because the specification leaves the behaviour open. `what` describes the subject's choice."""
    raise Outcome(Verdict.CHOICE, what)


@dataclass(frozen=True, slots=True)
class Case:
    """A rule and the code that tries it."""

    id: str
    title: str
    level: Level
    source: str
    section: str
    needs: tuple[str, ...]
    """Situations of the profile without which the case is skipped."""
    after: str
    """The id of the case without which this case proves nothing. If that case fails, a failure of this case says
    nothing new."""
    shared: bool
    """Whether the case may share a process of the subject with earlier cases, because a new process proves nothing
    more."""
    strict: Level
    """The level under `--strict`."""
    whole_run: bool
    """Whether the case is judged once, at the end, over all conversations with the subject. It has no separate
    conversation."""
    function: Callable[[Any], Awaitable[None]]
    protocol: int = 1
    """The version of the protocol that the case judges."""

    @property
    def group(self) -> str:
        """Return the part of the id before the slash."""
        return self.id.partition("/")[0]

    @property
    def quick(self) -> bool:
        """Whether the case needs no separate process."""
        return self.shared or (self.whole_run and self.group not in _TRYING)

    def broken(self) -> Verdict:
        """Return the verdict when the rule is broken, by its level. A case of the level CHOICE also fails if a response
        is missing or the subject ends."""
        return Verdict.WARN if self.level is Level.SHOULD else Verdict.FAIL

    def judged(self, outcome: Outcome) -> Verdict:
        """Return the verdict for the outcome of this case."""
        return self.broken() if outcome.verdict is Verdict.FAIL else outcome.verdict

    def result(
        self, verdict: Verdict, reason: str = "", seconds: float = 0.0, lines: Sequence[Line] = (), **more: Any
    ) -> CaseResult:
        """Return the result of the case in a run; `more` are further fields of `CaseResult`."""
        return CaseResult(
            id=self.id,
            group=self.group,
            title=self.title,
            level=self.level,
            section=self.section,
            source=self.source,
            verdict=verdict,
            reason=clean(" ".join(reason.split())),
            seconds=round(seconds, 3),
            transcript=tuple(lines),
            protocol=self.protocol,
            **more,
        )

    def stricter(self) -> Case:
        """Return the case as `--strict` judges it."""
        return replace(self, level=self.strict)


class Registry:
    """The cases for one kind of subject, in the order in which they were registered."""

    def __init__(self, kind: str, protocol: int = 1) -> None:
        self.kind = kind
        self.protocol = protocol
        self._cases: dict[str, Case] = {}

    def __iter__(self) -> Iterator[Case]:
        return iter(self._cases.values())

    def __len__(self) -> int:
        return len(self._cases)

    def __getitem__(self, id: str) -> Case:
        return self._cases[id]

    def load(self, package: ModuleType, groups: Sequence[str]) -> Registry:
        """Import the modules `groups` of `package`, and return the registry. Cases are run and reported in the order of
        these modules.

        Raises:
            LookupError: The package has a module that is not among the groups, or lacks one.
        """
        there = {module.name for module in iter_modules(package.__path__)}
        if odd := there ^ set(groups):
            raise LookupError(f"{package.__name__}: the groups listed and the files differ in {', '.join(sorted(odd))}")
        for group in groups:
            import_module(f"{package.__name__}.{group}")
        return self

    def case(
        self,
        id: str,
        *,
        level: Level,
        source: str,
        section: str,
        needs: str | Iterable[str] = (),
        after: str = "",
        shared: bool = False,
        strict: Level | None = None,
        whole_run: bool = False,
    ) -> Callable[[F], F]:
        """Register the decorated function as the case `id` (`group/kebab-words`).

        The first paragraph of the function's docstring is the title: the rule, as a sentence. `needs` names situations.
        If the profile has no entry for one of them, the case is skipped for that reason and the function is not called.
        For the other arguments see `Case`.

        Raises:
            ValueError: The id is malformed or already used, or the docstring has no title.
        """
        if not _ID.fullmatch(id):
            raise ValueError(f"{id!r} is not group/kebab-words")
        if id in self._cases:
            raise ValueError(f"two cases are named {id}")

        def register(function: F) -> F:
            title = " ".join((function.__doc__ or "").strip().partition("\n\n")[0].split())
            if not title:
                raise ValueError(f"{id} has no docstring to state its rule")
            self._cases[id] = Case(
                id=id,
                title=title,
                level=level,
                source=source,
                section=section,
                needs=(needs,) if isinstance(needs, str) else tuple(needs),
                after=after,
                shared=shared,
                strict=strict or level,
                whole_run=whole_run,
                function=function,
                protocol=self.protocol,
            )
            return function

        return register

    def matching(self, patterns: Iterable[str]) -> list[Case]:
        """Return the cases whose id or group fits one of the shell-style patterns. Without a pattern, return all
        cases."""
        wanted = tuple(patterns)
        return [
            case
            for case in self
            if not wanted or any(fnmatchcase(case.id, each) or case.group == each for each in wanted)
        ]
