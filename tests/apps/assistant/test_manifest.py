"""`assistant_tool.json`: what it may say, how mistakes in it are told, and how arguments are checked against it."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from acp_server import InvalidParams
from acp_server.apps.assistant.manifest import Manifest, ManifestError
from acp_server.errors import UsageError

LOCATION: dict[str, Any] = {
    "displayName": "Request Current Location",
    "id": "request_current_location",
    "description": "Requests the user's current location one time.",
    "icon": "location.fill",
    "color": "systemBlue",
    "parameters": [],
    "requireApproval": True,
    "autoApprove": True,
    "scriptEditorOnly": False,
}
"""The example of the documentation."""

SEARCH = [
    {"name": "query", "type": "string", "description": "What to look for.", "required": True},
    {"name": "limit", "type": "integer", "default": 10},
    {"name": "score", "type": "number", "required": False},
    {"name": "order", "type": "string", "enum": ["new", "old"], "required": False},
    {"name": "tags", "type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "required": False},
    {"name": "deep", "type": "boolean", "default": False},
    {"name": "extra", "type": "object", "required": False},
]


def manifest(**keys: Any) -> Manifest:
    return Manifest.load(LOCATION | keys)


def refused(data: Any) -> list[tuple[str, str]]:
    with pytest.raises(ManifestError) as caught:
        Manifest.load(data)
    return [(problem["path"], problem["message"]) for problem in caught.value.problems]


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "assistant_tool.json"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_every_documented_key_is_read():
    loaded = manifest()
    assert loaded.display_name == "Request Current Location"
    assert loaded.id == "request_current_location"
    assert loaded.description == "Requests the user's current location one time."
    assert (loaded.icon, loaded.color) == ("location.fill", "systemBlue")
    assert loaded.parameters == []
    assert (loaded.require_approval, loaded.auto_approve, loaded.script_editor_only) == (True, True, False)


def test_a_manifest_is_the_same_from_its_file_its_directory_parsed_json_and_python(tmp_path: Path):
    path = written(tmp_path, json.dumps(LOCATION))
    expected = manifest()
    assert Manifest.load(path) == expected
    assert Manifest.load(str(path)) == expected
    assert Manifest.load(tmp_path) == expected
    assert Manifest.load(expected) is expected
    in_python = Manifest(
        display_name="Request Current Location",
        id="request_current_location",
        description="Requests the user's current location one time.",
        icon="location.fill",
        color="systemBlue",
        require_approval=True,
        auto_approve=True,
    )
    assert in_python.model_dump() == expected.model_dump()


def test_what_is_left_out_is_the_careful_choice():
    small = Manifest.load({"displayName": "A", "id": "a", "description": "Does a.", "requireApproval": True})
    assert (small.auto_approve, small.script_editor_only, small.parameters) == (False, False, [])


@pytest.mark.parametrize("key", ["displayName", "id", "description", "requireApproval"])
def test_a_key_that_is_missing_is_named(key: str):
    assert refused({name: value for name, value in LOCATION.items() if name != key}) == [(key, "is required")]


def test_the_keys_of_a_file_are_those_of_the_documentation_only():
    data = {"display_name" if name == "displayName" else name: value for name, value in LOCATION.items()}
    assert refused(data) == [("displayName", "is required; is 'display_name' misspelled?")]


def test_a_misspelled_approval_never_makes_a_tool_run_unasked():
    data = {name: value for name, value in LOCATION.items() if name != "requireApproval"}
    assert refused(data | {"requireAproval": True}) == [
        ("requireApproval", "is required; is 'requireAproval' misspelled?")
    ]


@pytest.mark.parametrize(
    ("keys", "path", "message"),
    [
        ({"displayName": " "}, "displayName", 'should not be empty, not " "'),
        ({"displayName": 5}, "displayName", "should be a string, not 5"),
        ({"description": None}, "description", "should be a string, not null"),
        ({"icon": []}, "icon", "should be a string"),
        ({"requireApproval": "yes"}, "requireApproval", 'should be true or false, not "yes"'),
        ({"autoApprove": 1}, "autoApprove", "should be true or false, not 1"),
        ({"scriptEditorOnly": None}, "scriptEditorOnly", "should be true or false, not null"),
        ({"parameters": {}}, "parameters", "should be an array"),
        ({"parameters": ["path"]}, "parameters[0]", 'should be an object, not "path"'),
        ({"parameters": [{"type": "string"}]}, "parameters[0].name", "is required"),
        ({"parameters": [{"name": "path"}]}, "parameters[0].type", "is required"),
        (
            {"parameters": [{"name": "path", "type": "str"}]},
            "parameters[0].type",
            "should be 'string', 'number', 'integer', 'boolean', 'array' or 'object', not \"str\"",
        ),
        (
            {"parameters": [{"name": "path", "type": "string", "required": "no"}]},
            "parameters[0].required",
            'should be true or false, not "no"',
        ),
        (
            {"parameters": [{"name": "list", "type": "array", "items": {"type": "text"}}]},
            "parameters[0].items.type",
            "should be 'string', 'number', 'integer', 'boolean', 'array' or 'object', not \"text\"",
        ),
        (
            {"parameters": [{"name": "path", "type": "string"}, {"name": "path", "type": "number"}]},
            "parameters",
            "should have different names, but 'path' occurs twice",
        ),
        (
            {"parameters": [{"name": "n", "type": "number", "enum": [1, True]}]},
            "parameters[0]",
            "every value of 'enum' must be of the type 'number'",
        ),
        ({"parameters": [{"name": "n", "type": "number", "enum": []}]}, "parameters[0].enum", "should not be empty"),
        (
            {"parameters": [{"name": "n", "type": "object", "enum": [{}]}]},
            "parameters[0]",
            "'enum' is not allowed with the type 'object'",
        ),
        (
            {"parameters": [{"name": "n", "type": "string", "items": {"type": "string"}}]},
            "parameters[0]",
            "'items' is allowed only with the type 'array', not 'string'",
        ),
        (
            {"parameters": [{"name": "n", "type": "integer", "default": "x"}]},
            "parameters[0]",
            'default should be an integer, not "x"',
        ),
        (
            {"parameters": [{"name": "n", "type": "integer", "default": 1, "required": True}]},
            "parameters[0]",
            "'default' is not allowed with 'required: true'",
        ),
    ],
    ids=repr,
)
def test_a_mistake_is_told_with_its_key_and_what_is_expected(keys: dict[str, Any], path: str, message: str):
    assert refused(LOCATION | keys) == [(path, message)]


@pytest.mark.parametrize("name", ["", "a b", "ä", "a.b", "x" * 65, "a\n"])
def test_an_id_and_a_parameter_name_are_what_models_accept(name: str):
    expected = "should be 1 to 64 of the characters a-z, A-Z, 0-9, '_' and '-', not "
    ((path, message),) = refused(LOCATION | {"id": name})
    assert (path, message[: len(expected)]) == ("id", expected)
    assert message[len(expected) :][:50] == json.dumps(name, ensure_ascii=False)[:50]
    assert refused(LOCATION | {"parameters": [{"name": name, "type": "string"}]})[0][0] == "parameters[0].name"
    assert manifest(id="x" * 64).id == "x" * 64


def test_all_mistakes_are_told_at_once_and_the_error_says_where(tmp_path: Path):
    path = written(tmp_path, json.dumps(LOCATION | {"id": "", "autoApprove": "true"}))
    with pytest.raises(UsageError) as caught:
        Manifest.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path} is not the manifest of a tool: ")
    assert "id should be 1 to 64" in text
    assert 'autoApprove should be true or false, not "true"' in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not JSON: "),
        (b"\xff\xfe", "not JSON: "),
        (b"[" * 100_000, "not JSON: "),
        (b'{"requireApproval": true, "requireApproval": false}', "the key 'requireApproval' occurs twice"),
        (b'{"parameters": [{"default": NaN}]}', "NaN cannot be expressed in JSON"),
        (b"[]", "should be an object"),
        (b"null", "should be an object"),
    ],
)
def test_a_file_that_is_no_json_object_is_told_with_its_path(tmp_path: Path, content: bytes, message: str):
    path = written(tmp_path, content)
    with pytest.raises(ManifestError) as caught:
        Manifest.load(path)
    assert str(path) in str(caught.value)
    assert message in str(caught.value)


def test_a_file_that_is_not_there_is_told_with_its_path(tmp_path: Path):
    with pytest.raises(ManifestError, match="No such file") as caught:
        Manifest.load(tmp_path)
    assert caught.value.source == str(tmp_path / "assistant_tool.json")


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path):
    assert Manifest.load(written(tmp_path, b"\xef\xbb\xbf" + json.dumps(LOCATION).encode())) == manifest()


def test_keys_that_are_not_known_are_kept_and_warned_about(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "acp_server.tools"):
        loaded = Manifest.load(
            {
                **LOCATION,
                "autoAprove": False,
                "supportsUIRender": True,
                "display_name": "B",
                "parameters": [{"name": "l", "type": "array", "descripton": "x", "items": {"type": "string", "x": 1}}],
            }
        )
    assert [record.getMessage() for record in caplog.records] == [
        "the given object: autoAprove is an unknown key and has no effect; did you mean 'autoApprove'?",
        "the given object: supportsUIRender is an unknown key and has no effect",
        "the given object: display_name is an unknown key and has no effect; did you mean 'displayName'?",
        "the given object: parameters[0].descripton is an unknown key and has no effect; did you mean 'description'?",
        "the given object: parameters[0].items.x is an unknown key and has no effect",
    ]
    assert loaded.auto_approve
    assert loaded.display_name == "Request Current Location"
    assert loaded.model_extra is not None
    assert loaded.model_extra["supportsUIRender"] is True


def test_nothing_is_warned_about_where_all_keys_are_known(caplog: pytest.LogCaptureFixture):
    manifest(parameters=SEARCH)
    assert not caplog.records


# -- the schema, and arguments


def test_the_input_schema_is_the_one_that_models_need():
    schema = manifest(parameters=SEARCH).input_schema
    assert schema == {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What to look for."},
            "limit": {"type": "integer", "default": 10},
            "score": {"type": "number"},
            "order": {"type": "string", "enum": ["new", "old"]},
            "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
            "deep": {"type": "boolean", "default": False},
            "extra": {"type": "object"},
        },
        "required": ["query"],
        "additionalProperties": False,
    }
    Draft202012Validator.check_schema(schema)


def test_a_parameter_is_required_unless_it_says_otherwise_or_has_a_default():
    assert manifest(parameters=[{"name": "a", "type": "string"}]).input_schema["required"] == ["a"]
    assert manifest(parameters=[{"name": "a", "type": "string", "default": ""}]).input_schema["required"] == []


def test_a_tool_without_parameters_takes_an_empty_object():
    assert manifest().check({}) == {}
    assert manifest().check(None) == {}
    assert manifest().input_schema == {
        "type": "object",
        "properties": {},
        "required": [],
        "additionalProperties": False,
    }


GOOD: list[dict[str, Any]] = [
    {"query": "q"},
    {"query": "", "limit": 3, "score": 1, "order": "new", "tags": ["a", "b", "a"], "deep": True, "extra": {"k": [1]}},
    {"query": "q", "limit": 3.0, "score": 0.5, "tags": []},
    {"query": "q", "limit": 10**400, "score": 10**400},
]
BAD: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({}, [("query", "is required")]),
    ({"query": 5}, [("query", "should be a string, not 5")]),
    ({"query": "q", "limit": True}, [("limit", "should be an integer, not true")]),
    ({"query": "q", "limit": 1.5}, [("limit", "should be an integer, not 1.5")]),
    ({"query": "q", "limit": "1"}, [("limit", 'should be an integer, not "1"')]),
    ({"query": "q", "score": False}, [("score", "should be a number, not false")]),
    ({"query": "q", "order": "up"}, [("order", 'should be one of "new", "old", not "up"')]),
    ({"query": "q", "deep": 0}, [("deep", "should be true or false, not 0")]),
    ({"query": "q", "tags": "a"}, [("tags", 'should be an array, not "a"')]),
    ({"query": "q", "extra": []}, [("extra", "should be an object, not []")]),
    (
        {"query": "q", "tags": ["a", "c", 3]},
        [("tags[1]", 'should be one of "a", "b", not "c"'), ("tags[2]", "should be a string, not 3")],
    ),
    ({"query": "q", "qeury": "x"}, [("qeury", "is not a parameter of this tool")]),
    ({"limit": "x", "z": 1}, [("query", "is required"), ("limit", 'should be an integer, not "x"'),
                              ("z", "is not a parameter of this tool")]),
]  # fmt: skip


@pytest.mark.parametrize("arguments", GOOD, ids=lambda arguments: repr(arguments)[:40])
def test_arguments_that_fit_are_given_to_the_function_as_they_are(arguments: dict[str, Any]):
    tool = manifest(parameters=SEARCH)
    assert tool.check(arguments) == {"limit": 10, "deep": False} | arguments
    Draft202012Validator(tool.input_schema).validate(arguments)


@pytest.mark.parametrize(("arguments", "problems"), BAD, ids=lambda value: repr(value)[:40])
def test_arguments_that_do_not_fit_are_refused_with_each_problem(
    arguments: dict[str, Any], problems: list[tuple[str, str]]
):
    tool = manifest(parameters=SEARCH)
    with pytest.raises(InvalidParams) as caught:
        tool.check(arguments)
    assert caught.value.data == {"problems": [{"path": path, "message": message} for path, message in problems]}
    assert caught.value.message == "The arguments of request_current_location are invalid: " + "; ".join(
        f"{path} {message}" for path, message in problems
    )
    assert not Draft202012Validator(tool.input_schema).is_valid(arguments)


def test_numbers_that_json_does_not_have_are_refused():
    tool = manifest(parameters=[{"name": "n", "type": "number"}])
    with pytest.raises(InvalidParams, match="n should be a number, not NaN"):
        tool.check({"n": float("nan")})


def test_a_whole_number_is_an_int_for_the_function_however_it_is_written():
    tool = manifest(
        parameters=[
            {"name": "n", "type": "integer"},
            {"name": "l", "type": "array", "items": {"type": "integer"}},
            {"name": "d", "type": "integer", "default": 4.0},
        ]
    )
    checked = tool.check({"n": 3.0, "l": [1.0, 2]})
    assert checked == {"n": 3, "l": [1, 2], "d": 4}
    assert {type(value) for value in (checked["n"], checked["d"], *checked["l"])} == {int}


def test_null_for_what_may_be_left_out_is_leaving_it_out():
    tool = manifest(parameters=SEARCH)
    assert tool.check({"query": "q", "limit": None, "score": None}) == {"query": "q", "limit": 10, "deep": False}
    with pytest.raises(InvalidParams, match="query is required"):
        tool.check({"query": None})


def test_a_value_in_a_message_is_short_whatever_it_is():
    tool = manifest(parameters=[{"name": "n", "type": "number"}])
    with pytest.raises(InvalidParams) as caught:
        tool.check({"n": "x" * 10_000})
    assert len(caught.value.message) < 200
    with pytest.raises(InvalidParams, match="not <object object"):
        tool.check({"n": object()})


def test_defaults_are_not_shared_between_runs():
    tool = manifest(parameters=[{"name": "l", "type": "array", "default": ["a"]}])
    tool.check({})["l"].append("b")
    assert tool.check({}) == {"l": ["a"]}


@pytest.mark.parametrize(("arguments", "shown"), [([], "[]"), ("x", '"x"'), (5, "5")])
def test_arguments_that_are_no_object_are_refused(arguments: Any, shown: str):
    with pytest.raises(InvalidParams) as caught:
        manifest().check(arguments)
    assert (
        caught.value.message
        == f"The arguments of request_current_location are invalid: should be an object, not {shown}"
    )
