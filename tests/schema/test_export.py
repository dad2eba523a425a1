"""The exported schemas say what the types say, and are written the same way every time."""

import json
from pathlib import Path
from typing import Any, get_args

import jsonschema
import pytest

from acp_server import schema
from acp_server.schema import export
from acp_server.schema.features import ABSENT, FEATURES, Unstable, is_stable
from tests.schema.examples import EXAMPLES
from tests.schema.exported import COMMITTED, document

DOCUMENT = document()


def message(name: str) -> jsonschema.Draft202012Validator:
    """A validator for one definition."""
    return jsonschema.Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": DOCUMENT["$defs"]})


def test_the_committed_files_are_not_stale() -> None:
    assert export.stale(COMMITTED) == [], "run `make schema`"


def test_writing_twice_changes_nothing_and_removes_what_should_not_be_there(tmp_path: Path) -> None:
    export.write(tmp_path)
    first = {path.name: path.read_bytes() for path in (tmp_path / "v1").iterdir()}
    (tmp_path / "v1" / "old.json").write_text("{}")
    assert export.main([str(tmp_path)]) == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "v1").iterdir()} == first
    assert set(first) == {"schema.json", "schema.unstable.json", "methods.json", "methods.unstable.json"}


def test_files_have_sorted_keys_and_end_with_one_newline(tmp_path: Path) -> None:
    export.write(tmp_path)
    written = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.glob("*/*"))
    names = ("methods.json", "methods.unstable.json", "schema.json", "schema.unstable.json")
    assert written == [f"{version}/{name}" for version in ("v1", "v2") for name in names]
    for path in tmp_path.glob("*/*"):
        text = path.read_text("utf-8")
        assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def test_check_names_the_stale_files_and_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    export.write(tmp_path)
    assert export.main(["--check", str(tmp_path)]) == 0
    changed, extra, missing = (tmp_path / "v1" / name for name in ("schema.json", "extra.json", "methods.json"))
    changed.write_text("{}")
    extra.write_text("{}")
    missing.unlink()
    capsys.readouterr()
    assert export.main(["--check", str(tmp_path)]) == 1
    assert capsys.readouterr().err.splitlines() == [f"stale: {path}" for path in (changed, missing, extra)]
    assert not missing.exists()


def test_the_document_is_json_schema_of_2020_12() -> None:
    assert DOCUMENT["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    jsonschema.Draft202012Validator.check_schema(DOCUMENT)


def test_every_reference_leads_to_a_definition() -> None:
    def references(value: Any) -> set[str]:
        if isinstance(value, list):
            return {found for item in value for found in references(item)}
        if not isinstance(value, dict):
            return set()
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own | {found for item in value.values() for found in references(item)}

    assert references(DOCUMENT) <= {f"#/$defs/{name}" for name in DOCUMENT["$defs"]}


@pytest.mark.parametrize("version", export.VERSIONS, ids=lambda version: f"v{version.number}")
def test_everything_has_a_description(version: export.Version) -> None:
    for name, definition in export.definitions(version).items():
        assert definition.get("description"), name
        for key, value in definition.get("properties", {}).items():
            tag = "const" in value or key in {"type", "id", "method", "params"}
            assert tag or value.get("description"), f"{name}.{key}"


def test_nothing_of_the_exporter_is_left_in_the_document() -> None:
    assert "x-required" not in json.dumps(DOCUMENT)
    assert '"default": null' not in json.dumps(DOCUMENT)


def test_the_table_of_methods_names_definitions() -> None:
    table = export.documents()["methods.unstable.json"]
    assert set(table["methods"]) == set(schema.METHODS)
    for name, row in table["methods"].items():
        assert row["params"] in DOCUMENT["$defs"]
        assert (row["result"] is None) == (row["kind"] == "notification")
        assert row["result"] is None or row["result"] in DOCUMENT["$defs"], name


@pytest.mark.parametrize("version", export.VERSIONS, ids=lambda version: f"v{version.number}")
def test_the_stable_documents_have_nothing_of_an_unstable_feature(version: export.Version) -> None:
    made = export.documents(version)
    every, some = made["schema.unstable.json"]["$defs"], made["schema.json"]["$defs"]
    methods = made["methods.json"]["methods"]
    unstable = {name: feature for name, feature in FEATURES.items() if feature.state == "unstable"}
    assert unstable
    for name, feature in unstable.items():
        assert not methods.keys() & {*feature.methods}, name
        assert not some.keys() & {*feature.types}, name
        for owner, _, key in (member.partition(".") for member in feature.members):
            assert key not in named(some.get(owner, {})), name
    assert set(methods) == {
        name for name in version.methods if not any(name in feature.methods for feature in unstable.values())
    }
    texts = json.dumps(some)
    assert not [name for name in every.keys() - some.keys() if f'"#/$defs/{name}"' in texts]


def named(part: Any) -> set[str]:
    """The properties and words that a definition has, at any depth."""
    if isinstance(part, list):
        return {name for each in part for name in named(each)}
    if not isinstance(part, dict):
        return set()
    return {*part.get("properties", ()), *part.get("enum", ())} | {
        name for key, value in part.items() if key != "enum" for name in named(value)
    }


def tags_of(union: str) -> set[Any]:
    """The tags of the members of a union, in version 1."""
    notes: tuple[Any, ...] = getattr(getattr(getattr(schema, union, None), "__value__", None), "__metadata__", ())
    return {tag for note in notes if hasattr(note, "tags") for tag in note.tags()}


def test_every_name_in_the_table_of_features_is_one_of_the_schema() -> None:
    every = [export.documents(version)["schema.unstable.json"]["$defs"] for version in export.VERSIONS]
    methods = {name for version in export.VERSIONS for name in version.methods}
    for feature in FEATURES.values():
        assert {*feature.methods} <= methods
        assert {*feature.types} <= {name for definitions in every for name in definitions}
        for owner, _, key in (member.partition(".") for member in feature.members):
            assert any(key in named(definitions.get(owner, {})) | tags_of(owner) for definitions in every), owner
    assert not FEATURES.keys() & ABSENT.keys()
    assert {*get_args(Unstable)} == {name for name in FEATURES if not is_stable(name)}


@pytest.mark.parametrize("method", schema.METHODS.values(), ids=lambda method: method.name)
def test_a_message_of_each_method_fits_the_whole_document_and_its_envelope(method: schema.Method) -> None:
    validator = jsonschema.Draft202012Validator(DOCUMENT)
    sender, receiver = ("Client", "Agent") if method.receiver == "agent" else ("Agent", "Client")
    call = {"jsonrpc": "2.0", "method": method.name, "params": EXAMPLES[method.params][0]}
    if method.result is None:
        validator.validate(call)
        message(f"{sender}Notification").validate(call)
        return
    validator.validate({**call, "id": 1})
    message(f"{sender}Request").validate({**call, "id": 1})
    answer = {"jsonrpc": "2.0", "id": 1, "result": EXAMPLES[method.result][0]}
    validator.validate(answer)
    message(f"{receiver}Response").validate(answer)
    message(f"{receiver}Response").validate({"id": None, "error": EXAMPLES["Error"][0]})


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("TextContent", {"text": "a"}),
        ("TextContent", {"type": "image", "text": "a"}),
        ("ContentBlock", {"type": "of_tomorrow"}),
        ("ToolCall", {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": "of_tomorrow"}),
        ("NewSessionRequest", {"cwd": "/w"}),
        ("McpServerStdio", {"name": "a", "command": "b"}),
        ("InitializeRequest", {"protocolVersion": "1"}),
        ("InitializeRequest", {"protocolVersion": 65536}),
        ("CancelRequestNotification", {"requestId": 1.5}),
        ("CancelRequestNotification", {"requestId": True}),
        ("ElicitationFormMode", {"mode": "form", "message": "m", "requestedSchema": {}}),
        ("SetSessionConfigOptionRequest", {"sessionId": "s", "configId": "c", "value": True}),
        ("Notice", {"sessionUpdate": "notice", "severity": "info", "title": ""}),
        ("AgentRequest", {"method": "fs/read_text_file"}),
        ("ClientResponse", {"id": 1}),
    ],
)
def test_what_may_not_be_sent_does_not_fit(name: str, wrong: Any) -> None:
    assert not message(name).is_valid(wrong)
