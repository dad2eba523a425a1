"""Runs kept in files."""

import json
from pathlib import Path

import pytest

from acp_conformance.core.result import Run
from acp_conformance.report import jsonfile
from tests.conformance.report.runs import every_verdict, hostile, result, run


@pytest.mark.parametrize("kept", [every_verdict(), hostile()], ids=["every verdict", "hostile"])
def test_a_run_comes_back_as_it_was(kept: Run, tmp_path: Path) -> None:
    jsonfile.write(kept, tmp_path / "run.json")
    assert jsonfile.read(tmp_path / "run.json").to_json() == kept.to_json()


def test_the_file_has_the_names_of_the_fields(tmp_path: Path) -> None:
    jsonfile.write(every_verdict(), tmp_path / "run.json")
    data = json.loads((tmp_path / "run.json").read_text())
    assert data["kind"] == "agent"
    assert data["subject"]["protocolVersion"] == 1
    assert data["cases"][1]["verdict"] == "fail"
    assert data["cases"][1]["level"] == "MUST"
    assert (data["protocols"], data["cases"][1]["protocol"]) == ([1], 1)


def test_a_case_without_its_protocol_is_one_of_version_1(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    data = run(result("ids/a"), result("v2-ids/a", protocol=2)).to_json()
    assert data["protocols"] == [1, 2]
    del data["protocols"], data["cases"][0]["protocol"]
    path.write_text(json.dumps(data))
    assert [case.protocol for case in jsonfile.read(path).cases] == [1, 2]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"nonsense",
        b"[]",
        b"3",
        b'{"suite": "0"}',
        b'{"suite": "1"}',
        b'{"suite": "1", "cases": [{}]}',
        b"\xff",
        b"[" * 10**5,
    ],
)
def test_a_file_that_is_no_run_is_refused_with_its_name(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r"other\.json: "):
        jsonfile.read(path)
