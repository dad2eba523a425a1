"""Why something was refused, in words fit for the peer that sent it."""

from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, TypeAdapter, ValidationError

from acp_server import schema


def problems(kind: Any, received: Any) -> list[dict[str, str]]:
    """What is wrong with what was received."""
    with pytest.raises(ValidationError) as caught:
        schema.from_wire(kind, received)
    return schema.explain(caught.value)


def test_a_problem_names_its_place_in_the_message_and_its_reason() -> None:
    blocks = [{"type": "text", "text": "a"}, {"type": "resource", "resource": {"text": ""}}]
    assert problems(schema.PromptRequest, {"sessionId": 5, "prompt": blocks}) == [
        {"path": "sessionId", "message": "Input should be a valid string"},
        {"path": "prompt[1].resource.uri", "message": "Field required"},
    ]


def test_a_problem_of_the_whole_has_an_empty_path() -> None:
    assert [problem["path"] for problem in problems(schema.PromptRequest, 5)] == [""]


def test_a_missing_tag_says_which_key_tells_the_members_apart() -> None:
    (problem,) = problems(schema.PromptRequest, {"sessionId": "s", "prompt": [{"text": "a"}]})
    assert problem["path"] == "prompt[0]"
    assert problem["message"].startswith("Input should be an object with a string 'type' (TextContent, ")


def test_one_problem_is_told_once() -> None:
    assert problems(schema.CancelRequestNotification, {"requestId": True}) == [
        {"path": "requestId", "message": "Input should be a string, a 64-bit integer or null"}
    ]
    options = {"type": "select", "id": "a", "name": "b", "currentValue": "c", "options": [{"group": "g", "name": 5}]}
    assert [problem["path"] for problem in problems(schema.SessionConfigOption, options)] == [
        "options[0].name",
        "options[0].options",
    ]


def test_nothing_of_the_received_values_is_told() -> None:
    secret = "hunter2"
    blocks = [{"type": secret, "x": secret}, {"type": "text", "text": {"a": secret}}, secret]
    assert secret not in repr(problems(schema.PromptRequest, {"sessionId": [secret], "prompt": blocks}))


def test_a_long_name_that_the_peer_made_up_is_told_in_part() -> None:
    form = {"type": "object", "properties": {"n" * 100_000: 1}}
    (problem,) = problems(schema.ElicitationSchema, form)
    assert problem["path"].startswith("properties.nnn")
    assert len(problem["path"]) == 1000


def test_of_a_long_reason_of_an_authors_check_the_beginning_is_told() -> None:
    def refuse(text: str) -> str:
        raise ValueError(f"not known: {text}")

    with pytest.raises(ValidationError) as caught:
        TypeAdapter[str](Annotated[str, AfterValidator(refuse)]).validate_python("x" * 100_000)
    (problem,) = schema.explain(caught.value)
    assert problem["message"].startswith("Value error, not known: xxx")
    assert len(problem["message"]) == 1000
