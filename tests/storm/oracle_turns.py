"""The promises of docs/cancellation.md and docs/tools.md about what is said, asked and run in a turn."""

import json
import re
from collections.abc import Iterator
from typing import Any

from tests.storm.children import parent_of_all
from tests.storm.client import Asked
from tests.storm.promise import promise
from tests.storm.requests import NEVER, Request, Requests, When, is_load
from tests.storm.story import Story

_KEY = re.compile(r"\b(p\d+)\b")
FINAL = ("completed", "failed", "cancelled")


@promise("nothing-behind-the-answer", "cancellation.md: nothing is said of it behind its answer")
def _nothing_behind_the_answer(story: Story, requests: Requests) -> Iterator[str]:
    answered = {
        prompt.key: prompt.answers[0].note.order for prompt in requests.single("session/prompt") if prompt.answers
    }
    loads = _loads(requests)
    for update in story.client.updates():
        session = parent_of_all(update.message["params"]["sessionId"])
        if any(
            load.session == session
            and load.sent.note.order < update.note.order
            and (not load.answers or update.note.order < load.answers[0].note.order)
            for load in loads
        ):
            continue  # what a loaded session's turns said is said again
        for key in set(_KEY.findall(json.dumps(update.message["params"]["update"]))):
            if update.note.order > answered.get(key, NEVER):
                yield f"of {key}: {update.message}"


@promise("tool-calls-end-once", "tools.md: from pending to one final status, before the prompt's answer")
def _tool_calls_end_once(story: Story, requests: Requests) -> Iterator[str]:
    statuses: dict[str, list[str]] = {}
    for update in _live_updates(story, requests):
        kind = update["sessionUpdate"]
        if kind in ("tool_call", "tool_call_update") and "status" in update:
            statuses.setdefault(update["toolCallId"], []).append(update["status"])
    for prompt in requests.single("session/prompt"):
        for id, seen in statuses.items():
            if id.startswith(f"{prompt.key}.") and prompt.answers:
                finals = [status for status in seen if status in FINAL]
                if seen[0] != "pending" or len(finals) != 1 or seen[-1] not in FINAL:
                    yield f"{id}: {seen}"


def _live_updates(story: Story, requests: Requests) -> Iterator[dict[str, Any]]:
    """All updates, but those of sessions that were loaded."""
    loaded = {r.session for r in _loads(requests)}
    for received in story.client.updates():
        if parent_of_all(received.message["params"]["sessionId"]) not in loaded:
            yield received.message["params"]["update"]


def _loads(requests: Requests) -> list[Request]:
    """What had it said again what was said in a session."""
    return [request for request in requests.all if is_load(request)]


@promise("no-unapproved-run", "tools.md: a tool that needs approval runs after a yes that came in time")
def _no_unapproved_run(story: Story, requests: Requests) -> Iterator[str]:
    for ran in story.journal.of("ran"):
        tool = _tool_of(story, ran.key)
        if tool is None or tool.endswith("_free"):
            continue
        session = _session_of(story, ran.key)
        if not any(
            _allows(asked, always=_call_of(asked) != ran.key) and _heard_yes(requests, asked) < (ran.order, 0)
            for asked in story.client.asked.values()
            if asked.method == "session/request_permission"
            and parent_of_all(asked.params["sessionId"]) == session
            and (_call_of(asked) == ran.key or tool == _tool_of(story, _call_of(asked)))
        ):
            yield f"{tool} {ran.key} ran without a yes"


def _call_of(asked: Asked) -> str:
    subject = asked.params.get("subject", asked.params)
    return subject["toolCall"]["toolCallId"]


def _allows(asked: Asked, always: bool) -> bool:
    return any(
        _choice(answer.message) in (("allow_always",) if always else ("allow_once", "allow_always"))
        for answer in asked.answers[:1]
    )


def _choice(answer: dict[str, Any]) -> str | None:
    result = answer.get("result")
    outcome = result.get("outcome") if isinstance(result, dict) else None
    return outcome.get("optionId") if isinstance(outcome, dict) else None


def _heard_yes(requests: Requests, asked: Asked) -> When:
    return requests.heard(asked.answers[0]) if asked.answers else (NEVER, 0)


@promise("no-run-after-a-cancel", "cancellation.md: what arrives behind a cancel, the user's yes for one, is too late")
def _no_run_after_a_cancel(story: Story, requests: Requests) -> Iterator[str]:
    prompts = {prompt.key: prompt for prompt in requests.single("session/prompt")}
    for ran in story.journal.of("ran"):
        prompt = prompts.get(ran.key.split(".")[0])
        # A real thread may have begun already, and note it a moment later.
        if story.is_real and _is_threaded(story, ran.key):
            continue
        if prompt is not None and prompt.cut is not None and prompt.cut.when < (ran.order, 0):
            yield f"{ran.key} ran after {prompt.cut.why} had cancelled its turn"
    for request in requests.single("_tool_call/cancel", "tool_call/cancel"):
        id = request.sent.message["params"]["toolCallId"]
        for ran in story.journal.of("ran", id):
            is_fuzzy = story.is_real and _is_threaded(story, ran.key)
            if request.answers and request.outcome == {} and request.heard < (ran.order, 0) and not is_fuzzy:
                yield f"{id} ran after it was cancelled"


def _is_cancelled(update: dict[str, Any]) -> bool:
    if update["status"] == "cancelled":
        return update["capabilities"] is None
    return update["status"] == "failed" and update.get("_meta") == {"outcome": "cancelled"}


@promise("a-cancelled-call-fails", "cancellation.md: `{}`; the call ends `failed`, on version 2 `cancelled`")
def _a_cancelled_call_fails(story: Story, requests: Requests) -> Iterator[str]:
    live = list(_live_updates(story, requests))
    for request in requests.single("_tool_call/cancel", "tool_call/cancel"):
        if not request.answers or request.outcome != {}:
            continue
        id = request.sent.message["params"]["toolCallId"]
        final = [update for update in live if update.get("toolCallId") == id and update.get("status") in FINAL]
        if any(not _is_cancelled(update) for update in final):
            yield f"{id}: {final}"


@promise("withdrawn-once", "cancellation.md: each pending request is withdrawn with one $/cancel_request")
def _withdrawn_once(story: Story, requests: Requests) -> Iterator[str]:
    for asked in story.client.asked.values():
        if len(asked.withdrawn) > 1:
            yield f"withdrawn {len(asked.withdrawn)} times: {asked.message}"


@promise("withdrawn-if-unanswered", "cancellation.md: each pending request is withdrawn, and only those")
def _withdrawn_if_unanswered(story: Story, requests: Requests) -> Iterator[str]:
    for asked in story.client.asked.values():
        heard = min((requests.heard(answer) for answer in asked.answers), default=(NEVER, 0))
        for withdraws in story.journal.of("withdraws"):
            if withdraws.more == asked.message["id"] and heard < (withdraws.order, 0):
                yield f"withdrawn though it was answered: {asked.message}"
        # When what hung was told to end, all that was cancelled had been withdrawn or answered.
        if (
            story.over is not None
            and asked.note.order < story.over.order
            and heard > (story.over.order, 0)
            and not asked.withdrawn
            and not _asker_goes_on(story, requests, asked)
        ):
            yield f"neither answered nor withdrawn: {asked.message}"


def _asker_goes_on(story: Story, requests: Requests, asked: Asked) -> bool:
    """Whether the handler that asks, or a native task of its own, may not have ended when all that hung was told to."""
    assert story.over is not None
    found = re.search(r"\b([pm]\d+)\b", json.dumps(asked.params))
    key = found.group(1) if found is not None else ""
    if not any(
        request.key == key and '"native' not in json.dumps(request.sent.message).replace("\\", "")
        for request in requests.all
    ):
        return True
    # A tool that outlasts its grace is left behind by its turn.
    tools = [ran.key for ran in story.journal.of("ran") if f"{ran.key}." in json.dumps(asked.params)]
    lefts = [story.journal.first("left", tool) for tool in tools if not _is_threaded(story, tool)]
    if any(left is None or left.order > story.over.order for left in lefts):
        return True
    finished = story.journal.first("returned", key) or story.journal.first("raised", key)
    return finished is None or finished.order > story.over.order


@promise("terminals-are-released", "cancellation.md: kill and release terminals; a late terminal is released")
def _terminals_are_released(story: Story, requests: Requests) -> Iterator[str]:
    released: dict[str, int] = {}
    for asked in story.client.asked.values():
        if asked.method == "terminal/release":
            id = asked.params["terminalId"]
            released[id] = released.get(id, 0) + 1
    for id, asked in story.terminals.items():
        times = released.get(id, 0)
        first = asked.answers[0].message.get("result")
        made = isinstance(first, dict) and first.get("terminalId") == id
        heard = made and requests.heard(asked.answers[0])[0] < NEVER
        if times > 1 or (times == 0 and heard and story.end == "calm"):
            yield f"{id} was released {times} times"


def _is_threaded(story: Story, id: str) -> bool:
    return (_tool_of(story, id) or "").startswith(("plain", "pieces"))


def _tool_of(story: Story, id: str) -> str | None:
    for note in story.journal.of("called", id):
        return note.more[0]
    return None


def _session_of(story: Story, id: str) -> str | None:
    for note in story.journal.of("called", id):
        return parent_of_all(note.more[1])
    return None
