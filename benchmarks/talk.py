"""The client's messages to an agent, and the checks and counts of its responses.

Workloads are written with these functions. Each raises `SubjectError` if the agent does something else.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from .subject import Message, Subject, SubjectError


@contextmanager
def started(command: Sequence[str]) -> Iterator[Subject]:
    with Subject(command) as subject:
        initialize(subject)
        yield subject


def initialize(subject: Subject) -> None:
    capabilities = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}
    answer = subject.call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
    expect(answer.get("protocolVersion"), 1, "protocol version")


def sessions(subject: Subject, amount: int) -> list[str]:
    wanted = {subject.request("session/new", {"cwd": "/project", "mcpServers": []}) for _ in range(amount)}
    opened: list[str] = []
    for message in subject.messages():
        if message.get("id") in wanted:
            opened.append(subject.result(message)["sessionId"])
            if len(opened) == amount:
                break
    return opened


def prompt(subject: Subject, session: str, text: str) -> int:
    content = {"type": "text", "text": text}
    return subject.request("session/prompt", {"sessionId": session, "prompt": [content]})


def prompt_all(subject: Subject, sessions: list[str], text: str) -> int:
    """Prompt each session once and return how many text chunks they sent."""
    return answers(subject, [prompt(subject, session, text) for session in sessions], "end_turn")


def prompt_pipelined(subject: Subject, sessions: list[str], text: str, amount: int) -> None:
    """One prompt in flight for each session, up to `amount` prompts."""
    owner = {prompt(subject, session, text): session for session in sessions[:amount]}
    sent, answered = len(owner), 0
    for message in subject.messages():
        session = owner.pop(message["id"], None) if "id" in message else None
        if session is None:
            continue
        expect(subject.result(message).get("stopReason"), "end_turn", "stop reason")
        answered += 1
        if answered == amount:
            return
        if sent < amount:
            owner[prompt(subject, session, text)] = session
            sent += 1


def request_pipelined(
    subject: Subject,
    method: str,
    params: Message,
    amount: int,
    in_flight: int,
    check: Callable[[Message], None],
) -> None:
    """The same request `amount` times, up to a number in flight; `check` gets each response."""
    sent = min(amount, in_flight)
    for _ in range(sent):
        subject.request(method, params)
    for answered, message in enumerate(subject.messages(), 1):
        check(message)
        if answered == amount:
            return
        if sent < amount:
            subject.request(method, params)
            sent += 1


def answers(subject: Subject, prompts: list[int], stop_reason: str) -> int:
    waiting, chunks = set(prompts), 0
    for message in subject.messages():
        match message:
            case {"params": {"update": {"sessionUpdate": "agent_message_chunk"}}}:
                chunks += 1
            case {"id": answered} if answered in waiting:
                expect(subject.result(message).get("stopReason"), stop_reason, "stop reason")
                waiting.remove(answered)
                if not waiting:
                    break
            case _:
                pass
    return chunks


def cpu(subject: Subject, work: Callable[[], None]) -> float:
    subject.settle()
    before = subject.cpu_seconds
    work()
    subject.settle()
    return subject.cpu_seconds - before


def expect(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise SubjectError(f"{what}: expected {wanted!r}, got {found!r}")
