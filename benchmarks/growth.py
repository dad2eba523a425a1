"""How the cost of work grows with its amount: twice as much should cost twice as much, and no more.

Each curve is measured on our agent alone. Its points are CPU seconds for all of the work of one size. The curve is
linear if a piece of work costs as much at the largest size as at a middle one, within the noise of the machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from . import talk
from .subject import Subject, SubjectError
from .workloads import Command

ROOMY = "roomy"
"""An agent started with this argument has limits above these amounts."""

_SLACK = 1.5
_SAMPLES = 2


@dataclass(frozen=True, slots=True)
class Point:
    size: int
    seconds: float
    """CPU time for all of it."""

    @property
    def each(self) -> float:
        return self.seconds / self.size


@dataclass(frozen=True, slots=True)
class Curve:
    name: str
    meaning: str
    points: Sequence[Point]

    @property
    def growth(self) -> float:
        """How much more a piece costs at the largest size than at the middle one."""
        return self.points[-1].each / self.points[len(self.points) // 2].each

    @property
    def is_linear(self) -> bool:
        return self.growth <= _SLACK

    @property
    def verdict(self) -> str:
        return "linear" if self.is_linear else "MORE THAN LINEAR"


@dataclass(frozen=True, slots=True)
class Kind:
    """`measure` takes a running agent and a size, and returns the CPU seconds that this much of the work took."""

    name: str
    meaning: str
    sizes: tuple[int, ...]
    measure: Callable[[Subject, int], float]


def measure(command: Command, kinds: Sequence[Kind], scale: float, progress: Callable[[str], None]) -> list[Curve]:
    """Each size on a new agent, several times; the least counts, because other load can only add to it."""
    curves: list[Curve] = []
    for kind in kinds:
        points: list[Point] = []
        for size in sorted({max(2, round(size * scale)) for size in kind.sizes}):
            progress(f"{kind.name}: {size:,}")
            points.append(Point(size, min(_once(command, kind, size) for _ in range(_SAMPLES))))
        curves.append(Curve(kind.name, kind.meaning, points))
    return curves


def _once(command: Command, kind: Kind, size: int) -> float:
    with talk.started((*command, ROOMY)) as subject:
        # The modules loaded with a first tool call do not belong to any size.
        talk.prompt_all(subject, talk.sessions(subject, 1), "tools 1")
        return kind.measure(subject, size)


def _sessions(subject: Subject, size: int) -> float:
    opened: list[str] = []
    seconds = talk.cpu(subject, lambda: opened.extend(talk.sessions(subject, size)))
    talk.expect(len(set(opened)), size, "sessions")
    return seconds


def _hanging(subject: Subject, size: int) -> float:
    sessions = talk.sessions(subject, size)

    def work() -> None:
        prompts = [talk.prompt(subject, session, "hang") for session in sessions]
        subject.settle()
        for session in sessions:
            subject.notify("session/cancel", {"sessionId": session})
        talk.answers(subject, prompts, "cancelled")

    return talk.cpu(subject, work)


def _history(subject: Subject, size: int) -> float:
    (session,) = talk.sessions(subject, 1)

    def work() -> None:
        for _ in range(size):
            talk.prompt_all(subject, [session], "nothing")

    return talk.cpu(subject, work)


def _depth(subject: Subject, size: int) -> float:
    (session,) = talk.sessions(subject, 1)

    def work() -> None:
        prompt = talk.prompt(subject, session, f"deep {size}")
        _wait_for_text(subject)
        subject.notify("session/cancel", {"sessionId": session})
        talk.answers(subject, [prompt], "cancelled")

    return talk.cpu(subject, work)


def _message(subject: Subject, size: int) -> float:
    (session,) = talk.sessions(subject, 1)

    def work() -> None:
        talk.prompt_all(subject, [session], "nothing " + "x" * size)

    return talk.cpu(subject, work)


def _tools(subject: Subject, size: int) -> float:
    (session,) = talk.sessions(subject, 1)
    ended: set[str] = set()

    def work() -> None:
        prompt = talk.prompt(subject, session, f"tools {size}")
        for message in subject.messages():
            match message:
                case {"params": {"update": {"toolCallId": id, "status": "completed"}}}:
                    ended.add(id)
                case {"id": answered} if answered == prompt:
                    talk.expect(subject.result(message).get("stopReason"), "end_turn", "stop reason")
                    return
                case _:
                    pass

    seconds = talk.cpu(subject, work)
    talk.expect(len(ended), size, "tool calls")
    return seconds


def _wait_for_text(subject: Subject) -> None:
    for message in subject.messages():
        if "update" in message.get("params", {}):
            return
        if "id" in message:
            raise SubjectError(f"answered before it was cancelled: {message}")


KINDS = (
    Kind("sessions", "sessions opened", (1_000, 3_000, 10_000, 30_000), _sessions),
    Kind("hanging", "prompts that wait, then all cancelled", (300, 1_000, 3_000, 10_000), _hanging),
    Kind("history", "turns of one session, one after the other", (1_000, 3_000, 10_000, 30_000, 100_000), _history),
    Kind("depth", "tasks within one another, cancelled", (100, 300, 1_000, 3_000), _depth),
    Kind("message", "bytes of one prompt", (300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000), _message),
    Kind("tools", "tool calls of one turn", (100, 300, 1_000, 3_000), _tools),
)
