"""What stands in version 2 for the answer to a prompt as version 1 has it: the state `idle` behind its message."""

import json
from typing import Any

from tests.storm.client import RawClient, Received, Sent


def key_of_message(update: dict[str, Any]) -> str:
    """The key of the prompt whose message is inserted."""
    return json.loads(update["content"][0]["text"])["key"]


def ends(client: RawClient) -> dict[str, Received | None]:
    """By the keys of the prompts that were inserted: their ends, as version 1 would have answered; None if there is
    none yet."""
    found: dict[str, Received | None] = {}
    works: dict[str, list[str]] = {}
    for received in client.updates():
        session, update = received.message["params"]["sessionId"], received.message["params"]["update"]
        if update["sessionUpdate"] == "user_message":
            # What the user says for a turn that runs ends with it.
            works.setdefault(session, []).append(key_of_message(update))
            found[works[session][-1]] = None
        elif update.get("stopReason") is not None:
            for key in works.pop(session, ()):
                found[key] = Received(_as_answer(update), received.note)
    return found


def unended(client: RawClient) -> list[Sent]:
    """The requests without an answer, and the prompts that were inserted and have no end."""
    found = ends(client)
    return [
        sent
        for sent in client.requests
        if sent.message["id"] not in client.answers
        or (sent.message["method"] == "session/prompt" and found.get(_key_of(sent), sent) is None)
    ]


def _key_of(sent: Sent) -> str:
    return json.loads(sent.message["params"]["prompt"][0]["text"])["key"]


def _as_answer(update: dict[str, Any]) -> dict[str, Any]:
    if update["stopReason"] == "error":
        return {"error": update["error"]}
    return {"result": {"stopReason": update["stopReason"]}}
