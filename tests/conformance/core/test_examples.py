"""The messages that the published pages show are accused of nothing, and a breach planted in each is found."""

import copy
import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest

from acp_conformance.core.checker import Checker
from acp_conformance.core.schema import methods, resolved
from acp_conformance.core.violation import Violation
from tests.conformance.core.examples import Example, examples

ALL_OF_A_CLIENT: dict[str, Any] = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "elicitation": {"form": {}, "url": {}},
    "session": {"configOptions": {"boolean": {}}, "notices": {}},
}
ALL_OF_AN_AGENT: dict[str, Any] = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "auth": {"logout": {}},
    "sessionCapabilities": {key: {} for key in ("list", "resume", "close", "delete", "additionalDirectories")},
    "session": {"delete": {}, "additionalDirectories": {}},
}

ALONE = {"tool-order", "session", "unasked-answer"}
"""Rules about what came before a message, which a page does not show."""

FIRST = {("session-config-options", 1): "session/new", ("session-modes", 1): "session/new"}
"""What is answered where a page shows an answer alone; with the id 0 that is `initialize`."""

OTHERWISE = {
    ("file-system", 1): "clientCapabilities",  # which stand in the request
    ("terminals", 1): "clientCapabilities",
    ("authentication", 2): "'info' is a required property",  # the messages are shortened
    ("extensibility", 2): "'info' is a required property",
    ("session-delete", 2): "'info' is a required property",
    ("session-setup", 2): "'info' is a required property",
    ("prompt-lifecycle", 2): "'messageId' is a required property",  # the pages are older than the schema
    ("slash-commands", 2): "availableCommands",
}
"""What the schema has otherwise than an example of a page."""


def answered(example: Example) -> str:
    id = example.message["id"]
    return example.asked or FIRST.get((example.page, id), "initialize" if id == 0 else "")


def sender(example: Example, version: int) -> Literal["agent", "client"]:
    method = example.message.get("method") or answered(example)
    to_client = methods(version).get(method, {}).get("receiver") == "client"
    return "agent" if to_client == ("method" in example.message) else "client"


def found(example: Example, version: int, message: dict[str, Any]) -> list[Violation]:
    checker = Checker(sender(example, version), version)
    checker.client_capabilities, checker.agent_capabilities = ALL_OF_A_CLIENT, ALL_OF_AN_AGENT
    checker.agreed(version)
    if "method" not in example.message:
        checker.sent({"jsonrpc": "2.0", "id": example.message["id"], "method": answered(example), "params": {}})
    _, violations = checker.check(json.dumps(message).encode())
    return [each for each in violations if each.rule not in ALONE]


def told_otherwise(example: Example, version: int, violation: Violation) -> bool:
    return OTHERWISE.get((example.page, version), "\0") in violation.what


@pytest.mark.parametrize("version", [1, 2])
def test_a_message_of_a_page_is_accused_of_nothing(version: int) -> None:
    accused = [
        (example.page, violation)
        for example in examples(version)
        for violation in found(example, version, example.message)
        if not told_otherwise(example, version, violation)
    ]
    assert accused == []


@pytest.mark.parametrize("version", [1, 2])
def test_what_a_page_has_otherwise_is_still_so(version: int) -> None:
    otherwise = {
        (example.page, version)
        for example in examples(version)
        for violation in found(example, version, example.message)
        if told_otherwise(example, version, violation)
    }
    assert otherwise == {(page, number) for page, number in OTHERWISE if number == version}


def breaches(example: Example, version: int) -> Iterator[dict[str, Any]]:
    """The message with one thing wrong, in each way that is planted."""
    message = example.message
    yield {**message, "jsonrpc": "1.0"}
    yield {key: value for key, value in message.items() if key != "jsonrpc"}
    if "method" in message and "id" in message:
        yield {**message, "id": [message["id"]]}
    if "result" in message:
        yield {**message, "error": {"code": 1, "message": "no"}}
    if "method" in message and "params" in message:
        yield {**message, "params": 5}
    part = "params" if "method" in message else "result"
    known = methods(version).get(message.get("method") or answered(example))
    if known is None or not isinstance(message.get(part), dict):
        return
    required = resolved({"$ref": f"#/$defs/{known[part]}"}, version).get("required", ())
    for name in [name for name in required if name in message[part]]:
        without = copy.deepcopy(message)
        del without[part][name]
        yield without


@pytest.mark.parametrize(("version", "least"), [(1, 340), (2, 300)])
def test_a_breach_planted_in_a_message_of_a_page_is_one_violation(version: int, least: int) -> None:
    planted = 0
    for example in examples(version):
        if found(example, version, example.message):
            continue
        for broken in breaches(example, version):
            planted += 1
            assert len({each.what for each in found(example, version, broken)}) == 1, broken
    assert planted >= least
