"""What a client promises whatever its agent does, held against what became of a storm.

The promises are those of docs/clients.md and docs/cancellation.md.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from acp_server.client import RemoteAgent
from tests.storm.caller import Caller
from tests.storm.rogue import Note, Rogue


def tables(agent: RemoteAgent) -> list[str]:
    """What is not empty although the connection is over."""
    connection = agent.link.connection
    counts = {
        "requests of the agent": len(connection.endpoint.incoming),
        "requests of ours": connection.endpoint.ledger.outgoing,
        "withdrawn requests": connection.endpoint.ledger.withdrawn,
        "nodes": connection.tree.size,
        "tasks": connection.work.running + agent.link._tasks.running,
        "leaked tasks": connection.leaked,
        "bytes to be written": connection.writer.size,
        "open questions": len(agent._questions._permissions),
        "counted bytes": connection._inbound._held,
        "counted questions": agent._questions.count,
        "early updates": len(agent._router._kept) + agent._router._size,
        "sessions on their way": len(agent._router._arriving) + agent._router._expected,
        "turns": sum(session.turn is not None and session.turn.cancelled for session in agent.sessions.values()),
    }
    return [f"{count} {what}" for what, count in counts.items() if count]


def judge(rogue: Rogue, caller: Caller, all_answered: bool) -> list[str]:
    """What was promised and is not so. `all_answered`: the agent was there until it had all answers."""
    heard = [note.message for note in rogue.notes if note.heard]
    return [
        *caller.complaints,
        *_requests(heard),
        *_answers(rogue, all_answered),
        *_choices(rogue.notes),
        *(_withdrawals(rogue.notes) if all_answered else ()),
        *(_dismissals(rogue.notes) if all_answered else ()),
        *(complaint for turn in caller.turns for complaint in _turn(rogue.notes, turn)),
    ]


def _requests(heard: list[dict[str, Any]]) -> list[str]:
    ids = Counter(message["id"] for message in heard if "method" in message and "id" in message)
    withdrawn = Counter(
        message["params"]["requestId"] for message in heard if message.get("method") == "$/cancel_request"
    )
    return [
        *(f"id {id} is used for {count} requests" for id, count in ids.items() if count > 1),
        *(f"request {id} is withdrawn {count} times" for id, count in withdrawn.items() if count > 1),
        *(f"request {id} is withdrawn, and was never sent" for id in withdrawn if id not in ids),
    ]


def _answers(rogue: Rogue, all_answered: bool) -> list[str]:
    asked = {
        note.message["id"]
        for note in rogue.notes
        if not note.heard and "method" in note.message and "id" in note.message
    }
    answers = Counter(
        note.message["id"]
        for note in rogue.notes
        if note.heard and "method" not in note.message and note.message.get("id") is not None
    )
    complaints = [f"{id} has {count} answers" for id, count in answers.items() if count > 1 and id in asked]
    if all_answered:
        complaints += [f"{id} has no answer" for id in sorted(asked) if id not in answers]
    return complaints


def _withdrawals(notes: list[Note]) -> list[str]:
    """Every call has ended, so what was not answered was withdrawn."""
    settled = {note.message["params"]["requestId"] for note in notes if note.heard and _is(note, "$/cancel_request")}
    settled |= {note.message.get("id") for note in notes if not note.heard and _is(note, None)}
    asked = [note.message["id"] for note in notes if note.heard and "method" in note.message and "id" in note.message]
    return [f"request {id} is neither answered nor withdrawn" for id in asked if id not in settled]


def _choices(notes: list[Note]) -> list[str]:
    """Once a turn is being cancelled, no question of its session is answered with a choice."""
    complaints: list[str] = []
    asked: dict[Any, str] = {}
    for note, cancelled in _with_cancelled(notes):
        id = note.message.get("id")
        if not note.heard and _is(note, "session/request_permission"):
            asked[id] = _session(note)
        elif note.heard and _is(note, None) and asked.get(id) in cancelled and _outcome(note) == "selected":
            complaints.append(f"the question {id} is answered with a choice though its turn is cancelled")
    return complaints


def _dismissals(notes: list[Note]) -> list[str]:
    """The questions that are open when their turn is cancelled are answered `cancelled`."""
    asked: dict[Any, str] = {}
    to_dismiss: set[Any] = set()
    complaints: list[str] = []
    excused = {
        note.message["params"]["requestId"] for note in notes if not note.heard and _is(note, "$/cancel_request")
    }
    for note, cancelled in _with_cancelled(notes):
        id = note.message.get("id")
        if not note.heard and _is(note, "session/request_permission") and _session(note) is not None:
            asked[id] = _session(note)
        elif note.heard and _is(note, "session/cancel") and _session(note) in cancelled:
            to_dismiss |= {question for question, session in asked.items() if session == _session(note)}
        elif note.heard and _is(note, None) and asked.pop(id, None) is not None and id in to_dismiss:
            failed = note.message.get("error", {}).get("code") == -32603
            if _outcome(note) != "cancelled" and not failed and id not in excused:
                complaints.append(f"the question {id} was open when its turn was cancelled: {note.message}")
    return complaints


def _with_cancelled(notes: list[Note]) -> Iterator[tuple[Note, set[str]]]:
    """The notes, each with the sessions whose turn is being cancelled by then."""
    prompts: dict[str, Any] = {}
    cancelled: set[str] = set()
    for note in notes:
        if note.heard and _is(note, "session/prompt"):
            prompts[_session(note)] = note.message["id"]
            cancelled.discard(_session(note))
        elif note.heard and _is(note, "session/cancel") and _session(note) in prompts:
            cancelled.add(_session(note))
        elif not note.heard and _is(note, None):
            # Be the answer right or wrong, the turn may be over with it.
            for session in [session for session, prompt in prompts.items() if prompt == note.message.get("id")]:
                del prompts[session]
                cancelled.discard(session)
        yield note, cancelled


def _is(note: Note, method: str | None) -> bool:
    return note.message.get("method") == method


def _session(note: Note) -> Any:
    params = note.message.get("params")
    return params.get("sessionId") if isinstance(params, dict) else None


def _outcome(note: Note) -> Any:
    return note.message.get("result", {}).get("outcome", {}).get("outcome")


def _turn(notes: list[Note], turn: Any) -> list[str]:
    """Updates in their order, none twice; all of them if the turn looks complete."""
    complaints: list[str] = []
    if turn.seen != sorted(set(turn.seen)):
        complaints.append(f"{turn.prompt} saw its updates in the order {turn.seen}")
    # Updates go to the last session of this id that is opened, see `acp_server.client.update_router`.
    opened = sum(
        _session(note) == turn.session
        if note.heard and note.message.get("method") in ("session/load", "session/resume")
        else not note.heard and note.message.get("result") == {"sessionId": turn.session}
        for note in notes
    )
    if not turn.is_whole or opened > 1:
        return complaints
    prompt = next((at for at, note in enumerate(notes) if note.heard and _says(note.message, turn.prompt)), None)
    if prompt is None:
        return [*complaints, f"{turn.prompt} was never sent and looks complete"]
    id = notes[prompt].message["id"]
    missing: list[int] = []
    for note in notes[prompt:]:
        if not note.heard and "method" not in note.message and note.message.get("id") == id:
            break
        if note.number >= 0 and note.message["params"]["sessionId"] == turn.session and note.number not in turn.seen:
            missing.append(note.number)
    if missing:
        complaints.append(f"{turn.prompt} looks complete without the updates {missing}")
    return complaints


def _says(message: dict[str, Any], text: str) -> bool:
    return message.get("method") == "session/prompt" and message["params"]["prompt"] == [{"type": "text", "text": text}]
