"""The promises of docs/protocol.md about version 2, each as a function that yields what breaks it."""

from collections.abc import Iterator

from tests.storm.children import is_child, parent_of_all
from tests.storm.promise import promise
from tests.storm.prompts_v2 import key_of_message
from tests.storm.requests import Request, Requests
from tests.storm.story import Story


@promise("one-idle", "protocol.md: the state `idle` with the stop reason, once for each turn")
def _one_idle(story: Story, requests: Requests) -> Iterator[str]:
    if story.version == 1:
        return
    works: dict[str, str] = {}
    for received in story.client.updates():
        session, update = received.message["params"]["sessionId"], received.message["params"]["update"]
        if is_child(session):
            continue
        match update["sessionUpdate"]:
            case "user_message":
                key = key_of_message(update)
                if session in works and story.journal.first("steered", key) is None:
                    yield f"inserted while {works[session]} is worked on: {update}"
                works.setdefault(session, key)
            case "state_update" if "stopReason" in update:
                if works.pop(session, None) is None:
                    yield f"an end of nothing: {update}"
            case "state_update" if update["state"] != "idle":
                if session not in works:
                    yield f"nothing is worked on: {update}"
            case _:
                pass
    if story.end == "calm":
        yield from (f"no idle of {key}" for key in works.values())


@promise("one-message", "protocol.md: `session/prompt` is answered when the message is part of the conversation")
def _one_message(story: Story, requests: Requests) -> Iterator[str]:
    if story.version == 1:
        return
    ids = {
        key_of_message(received.message["params"]["update"]): received.message["params"]["update"]["messageId"]
        for received in story.client.updates()
        if received.message["params"]["update"]["sessionUpdate"] == "user_message"
    }
    for prompt in requests.single("session/prompt"):
        inserts = story.journal.of("inserts", prompt.key)
        if len(inserts) > 1:
            yield f"inserted {len(inserts)} times: {prompt}"
        for received in story.client.answers.get(prompt.id, ()):
            if bool(inserts) != ("result" in received.message):
                yield f"inserted {len(inserts)} times, and answered with {received.message}"
            elif inserts and prompt.key in ids and received.message["result"] != {"messageId": ids[prompt.key]}:
                yield f"inserted as {ids[prompt.key]}, and answered with {received.message}"


@promise("nothing-behind-the-close", "protocol.md: behind the answer nothing of the session is said")
def _nothing_behind_the_close(story: Story, requests: Requests) -> Iterator[str]:
    if story.version == 1:
        return
    for close in requests.single("session/close", "session/delete"):
        if close.answers and isinstance(close.outcome, dict):
            closed = close.answers[0].note.order
            for one in [*story.client.updates(), *story.client.asked.values()]:
                params = one.message.get("params")
                if (
                    isinstance(params, dict)
                    and parent_of_all(str(params.get("sessionId"))) == close.session
                    and one.note.order > closed
                    and not _is_reopened(requests, close, one.note.order)
                ):
                    yield f"{one.message} behind {close}"


def _is_reopened(requests: Requests, close: Request, by: float) -> bool:
    """Whether the session may have been opened again since then."""
    return any(
        other.session == close.session
        and other.sent.note.order < by
        and (not other.answers or other.answers[0].note.order > close.sent.note.order)
        for other in requests.all
        if other.method == "session/resume"
    )
