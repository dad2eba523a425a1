"""What a client submits for an agent's form, URL or permission request: what fits, and what is refused."""

import json
import math
from typing import Any

import pytest

from acp_server.apps.gateway.errors import ApiError
from acp_server.apps.gateway.questions import FormQuestion, PermissionQuestion, UrlQuestion
from acp_server.schema import (
    ElicitationAcceptAction,
    ElicitationFormMode,
    ElicitationUrlMode,
    PermissionOption,
    RequestPermissionRequest,
    ToolCallUpdate,
)


def form(required: list[str] | None = None, **fields: Any) -> FormQuestion:
    schema = {"type": "object", "properties": fields, "required": required or []}
    asked = {"mode": "form", "sessionId": "s", "message": "m", "requestedSchema": schema}
    return FormQuestion("7", ElicitationFormMode.from_wire(asked))


def refused(question: Any, output: str) -> str:
    with pytest.raises(ApiError) as error:
        question.read(output)
    assert error.value.code == 4000
    assert question.id in error.value.msg
    return error.value.msg


INTEGER = {"type": "integer", "minimum": 1, "maximum": 9}
NUMBER = {"type": "number", "minimum": -1.5, "maximum": 1e300}
CHOICE = {"type": "string", "enum": ["a", "b"]}
TITLED = {"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}
TEXT = {"type": "string", "minLength": 2, "maxLength": 4, "pattern": "^[a-z\U0001f600]+$"}
SEVERAL = {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string", "enum": ["a", "b", "c"]}}
TITLED_SEVERAL = {"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}}
LOOKS_AHEAD = {"type": "string", "pattern": "^(?=.*x)a"}
COSTLY = {"type": "string", "pattern": "^(a+)+$"}
BROKEN = {"type": "string", "pattern": "["}


def of(name: str) -> dict[str, str]:
    return {"type": "string", "format": name}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (INTEGER, 1),
        (INTEGER, 9),
        ({"type": "integer"}, -(2**63)),
        (NUMBER, -1.5),
        (NUMBER, 5),
        ({"type": "boolean"}, False),
        (CHOICE, "b"),
        (TITLED, "a"),
        (TEXT, "ab"),
        (TEXT, "abcd"),
        (TEXT, "\U0001f600" * 4),
        (SEVERAL, ["a", "c"]),
        (TITLED_SEVERAL, []),
        ({"type": "string"}, ""),
        ({"type": "string", "enum": []}, "x"),
        ({"type": "array", "items": {"type": "string", "enum": []}}, ["x"]),
        # Left to the agent.
        (LOOKS_AHEAD, "b"),
        (BROKEN, "b"),
        (of("telephone"), "1"),
        ({"type": "colour"}, "red"),
        (of("email"), "a.b+c@example.org"),
        (of("uri"), "mailto:a@example.org"),
        (of("date"), "2024-02-29"),
        (of("date-time"), "2026-11-21T18:47:40.123456789Z"),
        (of("date-time"), "2016-12-31T23:59:60+01:00"),
    ],
)
def test_what_fits_a_form_is_told_as_it_was_given(field: dict[str, Any], value: Any) -> None:
    answer = form(x=field).read(json.dumps({"x": value}))
    assert isinstance(answer, ElicitationAcceptAction)
    assert json.dumps(answer.content) == json.dumps({"x": value})


@pytest.mark.parametrize(
    ("field", "value", "wanted"),
    [
        (INTEGER, "abc", "valid integer"),
        (INTEGER, "5", "valid integer"),
        (INTEGER, 1.5, "valid integer"),
        (INTEGER, True, "valid integer"),
        (INTEGER, ["x"], "valid integer"),
        (INTEGER, None, "valid integer"),
        (INTEGER, 0, "greater than or equal to 1"),
        (INTEGER, 10, "less than or equal to 9"),
        ({"type": "integer"}, 2**63, "less than"),
        ({"type": "integer"}, 10**30, "valid integer"),
        (NUMBER, "1.5", "valid number"),
        (NUMBER, True, "valid number"),
        (NUMBER, -1.6, "greater than or equal to -1.5"),
        ({"type": "boolean"}, "yes", "valid boolean"),
        ({"type": "boolean"}, 1, "valid boolean"),
        (CHOICE, "zzz", "'a' or 'b'"),
        (CHOICE, ["a"], "'a' or 'b'"),
        (TITLED, "A", "'a' or 'b'"),
        (TEXT, "a", "at least 2 characters"),
        (TEXT, "abcde", "at most 4 characters"),
        (TEXT, "AB", "match pattern"),
        (TEXT, 12, "valid string"),
        (SEVERAL, [], "at least 1 item"),
        (SEVERAL, ["a", "b", "c"], "at most 2 items"),
        (SEVERAL, ["a", "d"], "'a', 'b' or 'c'"),
        (SEVERAL, "a", "valid list"),
        (TITLED_SEVERAL, ["A"], "'a' or 'b'"),
        (TITLED_SEVERAL, [1], "'a' or 'b'"),
        (COSTLY, "a" * 100_000 + "!", "match pattern"),
        (of("email"), "nomail", "format email"),
        (of("uri"), "/relative", "format uri"),
        (of("date"), "20260101", "format date"),
        (of("date"), "2026-02-29", "format date"),
        (of("date-time"), "2026-11-21 18:47", "format date-time"),
        (of("date-time"), "2026-13-21T18:47:40Z", "format date-time"),
        ({"type": "colour"}, {"r": 1}, "no form can have"),
    ],
)
def test_what_does_not_fit_a_form_is_refused_with_what_was_expected(
    field: dict[str, Any], value: Any, wanted: str
) -> None:
    message = refused(form(x=field), json.dumps({"x": value}))
    assert wanted in message
    assert "does not fit the form: x" in message or "no form" in message


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("kind", ["number", "integer", "colour"])
def test_what_is_no_number_of_json_is_refused(kind: str, number: str) -> None:
    assert "JSON object" in refused(form(x={"type": kind}), f'{{"x": {number}}}')


def test_fields_have_to_be_there_if_they_are_required_and_to_belong_to_the_form() -> None:
    question = form(["n"], n=INTEGER, c=CHOICE)
    assert "n: Field required" in refused(question, "{}")
    assert "x: Extra inputs" in refused(question, '{"n": 1, "x": 2}')
    for output in ("[]", "text", "1", "null", '"text"', "{", ""):
        assert "JSON object" in refused(question, output)
    assert question.read('{"n": 1}').content == {"n": 1}  # pyright: ignore[reportAttributeAccessIssue]
    assert form(["y"]).read('{"y": 1}').content == {"y": 1}  # pyright: ignore[reportAttributeAccessIssue]


def test_a_refusal_repeats_nothing_of_what_was_filled_in_and_is_short() -> None:
    many = {"type": "string", "enum": [f"choice {number}" for number in range(10_000)]}
    for field in (CHOICE, TEXT, INTEGER, many, of("email"), of("date")):
        message = refused(form(x=field), json.dumps({"x": "hunter2"}))
        assert "hunter2" not in message
        assert len(message) < 1000
    assert len(refused(form(x=TEXT), json.dumps({"y" * 100_000: 1}))) < 1000


@pytest.mark.parametrize("field", [{"x": {"type": "string", "enum": ["\ud83d"]}}, {"\ud83d": {"type": "string"}}])
def test_a_form_that_nobody_can_check_is_left_to_its_agent(field: dict[str, Any]) -> None:
    assert form(**field).read('{"y": 1}').content == {"y": 1}  # pyright: ignore[reportAttributeAccessIssue]


def test_half_of_an_emoji_in_a_form_is_replaced() -> None:
    answer = form(x={"type": "string"}).read('{"x": "\\ud83d"}')
    assert answer.content == {"x": "\ufffd"}  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("output", ["ab", "abcd"])
def test_plain_text_fills_the_only_field(output: str) -> None:
    assert form(x=TEXT).read(output).content == {"x": output}  # pyright: ignore[reportAttributeAccessIssue]
    assert "at least 2" in refused(form(x=TEXT), "a")


@pytest.mark.parametrize(("output", "action"), [("decline", "decline"), (" Cancel\n", "cancel")])
def test_a_form_can_be_declined_and_cancelled(output: str, action: str) -> None:
    assert form(["x"], x=TEXT).read(output).action == action


def test_a_url_is_accepted_declined_or_cancelled() -> None:
    asked = {"mode": "url", "sessionId": "s", "message": "m", "elicitationId": "e", "url": "https://example.org/"}
    question = UrlQuestion("7", ElicitationUrlMode.from_wire(asked))
    assert [question.read(output).action for output in ("accept", " Decline ", "cancel")] == [
        "accept",
        "decline",
        "cancel",
    ]
    for output in ("", "yes", "{}", '{"action": "accept"}'):
        assert "accept, decline or cancel" in refused(question, output)


# -- permission


def permission(*options: tuple[str, str, str]) -> PermissionQuestion:
    return PermissionQuestion(
        "7",
        RequestPermissionRequest(
            session_id="s",
            tool_call=ToolCallUpdate(tool_call_id="t"),
            options=[PermissionOption(option_id=id, name=name, kind=kind) for id, name, kind in options],
        ),
    )


OPTIONS = (("y", "Yes, do it", "allow_once"), ("n", "No", "reject_once"))
OUTCOME = '{"outcome": {"outcome": "selected", "optionId": "y"}}'


@pytest.mark.parametrize(
    "output",
    ["y", " y\n", "allow_once", "Yes, do it", '{"option_id": "y"}', ' {"option_id": "allow_once"}', OUTCOME],
)
def test_an_option_is_chosen_by_what_names_it(output: str) -> None:
    chosen = permission(*OPTIONS).read(output)
    assert chosen is not None
    assert chosen.option_id == "y"


@pytest.mark.parametrize("output", ["cancel", " Cancel ", "cancelled", '{"outcome": {"outcome": "cancelled"}}'])
def test_none_is_chosen_by_cancelling(output: str) -> None:
    assert permission(*OPTIONS).read(output) is None


@pytest.mark.parametrize(
    "output",
    [
        "",
        " ",
        "perhaps",
        "{}",
        "[]",
        "null",
        '{"foo": 1}',
        '{"option_id": "z"}',
        '{"option_id": null}',
        '{"option_id": ["y"]}',
        '{"option_id": "cancel"}',
        '{"outcome": "selected"}',
        '{"outcome": {"outcome": "selected"}}',
        '{"outcome": {"outcome": "selected", "optionId": "z"}}',
        '{"outcome": {"optionId": "y"}}',
        '{"outcome": {}}',
        "y n",
        "NaN",
    ],
)
def test_what_names_no_option_is_refused_with_the_options(output: str) -> None:
    assert "must be one of the options (y, n) or cancel" in refused(permission(*OPTIONS), output)


@pytest.mark.parametrize("id", [" y ", "cancel", "", '{"a": 1}', '{"option_id": "n"}', "{}", math.pi.hex()])
def test_an_option_can_be_chosen_by_its_id_whatever_that_is(id: str) -> None:
    question = permission((id, "Yes", "allow_once"), ("n", "No", "reject_once"), ("y", "y", "reject_always"))
    for output in (id, json.dumps({"option_id": id})):
        chosen = question.read(output)
        assert chosen is not None
        assert chosen.option_id == id


def test_of_very_many_fields_that_no_form_has_one_is_told() -> None:
    question = form(n=INTEGER, several=SEVERAL)
    assert "Extra inputs" in refused(question, json.dumps(dict.fromkeys(map(str, range(100_000)), 1)))
    assert "several.0: Input" in refused(question, json.dumps({"several": ["d"] * 2}))
