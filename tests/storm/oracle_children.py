"""The promises of docs/agents.md about child sessions."""

import json
from collections.abc import Iterator
from typing import Any

from tests.storm.children import is_child, parent_of_all
from tests.storm.client import Received
from tests.storm.oracle_requests import can_arrive
from tests.storm.promise import promise
from tests.storm.requests import NEVER, Requests, is_load
from tests.storm.story import Story


@promise("children-end-once", "agents.md: a child is announced before anything carries its id, and ends with its block")
def _children_end_once(story: Story, requests: Requests) -> Iterator[str]:
    loaded = {request.session for request in requests.all if is_load(request)}
    states: dict[str, list[str]] = {}
    for received in story.client.received:
        params = received.message.get("params")
        if not isinstance(params, dict) or parent_of_all(str(params.get("sessionId"))) in loaded:
            continue
        update: dict[str, Any] = params.get("update") or {}
        if update.get("sessionUpdate") == "subagent_update" and "state" in update:
            states.setdefault(update["sessionId"], []).append(_state(update))
        elif is_child(session := str(params.get("sessionId"))) and session not in states:
            yield f"before its child was announced: {received.message}"
    for child, seen in states.items():
        if seen[0] != "running" or "ended" in seen[:-1]:
            yield f"{child}: {seen}"
        if seen[-1] != "ended" and story.end == "calm" and can_arrive(story):
            yield f"{child} did not end: {seen}"


def _state(update: dict[str, Any]) -> str:
    return "ended" if update.get("capabilities", ()) is None else update["state"]["state"]


@promise("nothing-asked-for-an-ended-child", "agents.md: a child ends with its block")
def _nothing_asked_for_an_ended_child(story: Story, requests: Requests) -> Iterator[str]:
    if story.stalls or story.is_real:
        return  # then nothing can be said of when a message was written
    ends = _ends(story)
    for asked in story.client.asked.values():
        child = str(asked.params.get("sessionId")) if isinstance(asked.params, dict) else ""
        left = story.journal.first("delegated", child)
        # A terminal that was created late is released. A native task may outlive the block in which it began.
        if left is None or child not in ends or asked.method.startswith("terminal/") or '"native"' in _plans(story):
            continue
        # A child that does not end is announced as ended before its block ends.
        if left.order < ends[child].note.order < asked.note.order:
            yield f"{asked.message}, after {ends[child].message}"


def _plans(story: Story) -> str:
    return "".join(json.dumps(sent.message).replace("\\", "") for sent in story.client.requests)


@promise("a-cancelled-child-is-cancelled", "agents.md: a cancel of the child ends its block alone")
def _a_cancelled_child_is_cancelled(story: Story, requests: Requests) -> Iterator[str]:
    ends = _ends(story)
    end = (story.ended.order, 0) if story.ended is not None else (NEVER, 0)
    for sent in story.client.sent:
        if sent.message.get("method") != "session/cancel":
            continue
        child = sent.message["params"]["sessionId"]
        begun, ended = story.journal.first("delegates", child), story.journal.first("delegated", child)
        if begun is None or ended is None or child not in ends:
            continue
        # The first cause stands: with the end of the connection, the child has failed.
        if (begun.order, 0) < requests.heard(sent) < min((ended.order, 0), end):
            state = ends[child].message["params"]["update"]["state"]
            if state.get("stopReason") != "cancelled":
                yield f"{child} was cancelled, and ended as {state}"


def _ends(story: Story) -> dict[str, Received]:
    return {
        update["sessionId"]: received
        for received in story.client.updates()
        if (update := received.message["params"]["update"]).get("sessionUpdate") == "subagent_update"
        and "state" in update
        and _state(update) == "ended"
    }
