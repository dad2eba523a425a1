"""The guide to remote clients: its examples run, and its tables are those of the code."""

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from acp_server.remote import RemoteApp, RemoteLimits
from tests.remote.http_client import Client, client_of
from tests.remote.serving import connected, serving
from tests.session.editor import END_TURN

from .blocks import DOCS, run

_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([\w.]+) \| ([^|]+) \| ([^|]*) \|$", re.MULTILINE)


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_remote_starlette() -> None:
    headers = {"authorization": "Bearer a-token-of-forty-random-characters"}
    example = run("remote.md", "starlette")
    async with serving(example["app"]) as url, connected(url, additional_headers=headers) as (editor, _):
        assert await editor.ask(await editor.open(), "hello") == END_TURN
        assert editor.said() == ["You said hello."]


@pytest.mark.anyio
async def test_remote_principals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokens").write_text("ann one\nbob two\n")
    app: RemoteApp = run("remote.md", "principals")["application"](tmp_path / "tokens")
    assert (await Client(app).initialize()).status == 401
    async with client_of(app, authorization="Bearer two") as client:
        session = await client.new_session(client.open())
        events = client.open(session)
        await client.prompt(session, "hello")
        assert (await events.next())["params"]["update"]["content"]["text"] == "Hello, bob."
        assert (await events.next())["result"] == END_TURN


def test_the_table_of_limits_has_each_field_with_its_unit_and_its_default() -> None:
    page = (DOCS / "remote.md").read_text("utf-8")
    table = [(name, unit, default) for name, unit, default, *_ in _ROW.findall(page)]
    listed = re.findall(r"^(\w+) \((\w+)\): \S+", inspect.getdoc(RemoteLimits) or "", re.MULTILINE)
    assert [(name, unit) for name, unit, _ in table] == listed
    assert [(name, default) for name, _, default in table] == [
        (field.name, str(field.default)) for field in dataclasses.fields(RemoteLimits)
    ]
