"""The suite's own reading of the schema, against values made from it: it accuses no valid one, and finds each breach.

What is valid is for the validator of the standard to say, which knows nothing of how the suite reads a union.
"""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from acp_conformance.core.checker import Checker
from acp_conformance.core.members import unknown_members
from acp_conformance.core.schema import FOLDERS, errors_of, member_capabilities, methods
from tests.conformance.core.generated import Generated

SEEDS = range(6)

BEYOND = {"base64", "command", "config-option", "custom-name", "date"}
"""The rules about texts that the schema leaves open, and that are generated as any text."""

ANY_MESSAGE = [f"{side}{kind}" for side in ("Agent", "Client") for kind in ("Request", "Response", "Notification")]
"""Types that are all params or all results: some of those hold any member."""


@cache
def document(version: int) -> dict[str, Any]:
    return json.loads((FOLDERS / f"v{version}" / "schema.json").read_text("utf-8"))


@cache
def standard(name: str, version: int) -> Any:
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": document(version)["$defs"]})


def generated(version: int, seeds: range = SEEDS) -> Iterator[tuple[str, int, Generated]]:
    for name in document(version)["$defs"]:
        for seed in seeds:
            yield name, seed, Generated(name, document(version)["$defs"], seed)


@pytest.mark.parametrize("version", [1, 2])
def test_a_valid_value_of_every_type_is_accused_of_nothing(version: int) -> None:
    for name, seed, made in generated(version):
        assert standard(name, version).is_valid(made.value), (name, seed)
        assert errors_of(name, made.value, version) == "", (name, seed)
        if version == 1 and isinstance(made.value, dict):
            assert unknown_members(name, made.value) == [], (name, seed)


@pytest.mark.parametrize("version", [1, 2])
def test_a_planted_breach_of_every_type_is_found(version: int) -> None:
    planted = 0
    for name, seed, made in generated(version, range(2)):
        for index in range(len(made.breaches)):
            broken = Generated(name, made.definitions, seed)
            broken.breaches[index]()
            if not standard(name, version).is_valid(broken.value):
                planted += 1
                assert errors_of(name, broken.value, version) != "", (name, seed, index)
    assert planted > 1_000


def test_a_member_of_ones_own_is_found_wherever_the_schema_names_all() -> None:
    planted = 0
    for name, seed, made in generated(1):
        for index in range(len(made.closed)):
            broken = Generated(name, made.definitions, seed)
            broken.closed[index]["madeUp"] = 1
            if name not in ANY_MESSAGE and standard(name, 1).is_valid(broken.value):
                planted += 1
                assert [each.split(".")[-1] for each in unknown_members(name, broken.value)] == ["madeUp"], (name, seed)
    assert planted > 500


def everything(version: int) -> dict[str, Any]:
    """All capabilities of either side."""
    of_members = [path for each in member_capabilities(version).values() for path in each.values()]
    made: dict[str, Any] = {}
    for path in [*of_members, *(each["capability"] for each in methods(version).values() if each["capability"])]:
        owner = made
        for part in path.split(".")[1:]:
            owner = owner.setdefault(part, {})
    return made


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("subject", ["agent", "client"])
def test_a_message_of_every_method_breaks_no_rule_and_with_one_breach_one(version: int, subject: Any) -> None:
    for method, each in methods(version).items():
        name = each["params"] if each["receiver"] != subject else each["result"]
        if name is None:
            continue
        for seed in SEEDS:
            made = Generated(name, document(version)["$defs"], seed)
            if method == "initialize":
                made.value["protocolVersion"] = version
            assert {*rules(version, subject, method, made.value)} <= BEYOND, (method, seed)
            for required in document(version)["$defs"][name].get("required", ()):
                broken = {key: value for key, value in made.value.items() if key != required}
                assert len({*rules(version, subject, method, broken)} - BEYOND) == 1, (method, seed, required)


def rules(version: int, subject: Any, method: str, value: Any) -> list[str]:
    """The rules that the message breaks which has this value, of a side that may do all that there is."""
    checker = Checker(subject, version)
    checker.client_capabilities = checker.agent_capabilities = everything(version)
    id = {"id": 1} if methods(version)[method]["kind"] == "request" else {}
    message: dict[str, Any] = {"jsonrpc": "2.0", **id, "method": method, "params": value}
    if methods(version)[method]["receiver"] == subject:
        checker.sent(message | {"params": {}})
        message = {"jsonrpc": "2.0", "id": 1, "result": value}
    update = value.get("update", {}) if method == "session/update" else {}
    if update.get("sessionUpdate") == "tool_call_update":
        known = {"sessionUpdate": "tool_call", "toolCallId": update["toolCallId"], "title": "a"}
        checker.check(json.dumps(message | {"params": {**value, "update": known}}).encode())
    return [each.rule for each in checker.check(json.dumps(message).encode())[1]]
