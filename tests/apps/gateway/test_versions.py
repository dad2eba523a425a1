"""Agents of both versions of the protocol behind one API."""

import json
import sys
from pathlib import Path

import pytest

from .inside import Api, begin, ended, say
from .serving import BUSY

pytestmark = pytest.mark.anyio

TYPESCRIPT = ["node", str(Path(__file__).parents[2] / "interop" / "node" / "agent_v2.js")]

OLD = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    params = asked["params"]
    with open(sys.argv[1], "a") as log:
        print(asked["method"], params.get("protocolVersion", ""), file=log)
    if params.get("protocolVersion", 1) != 1:
        sys.exit(3)
    result = {"protocolVersion": 1, "sessionId": "s", "stopReason": "end_turn"}
    if asked["method"] == "session/prompt":
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}}
        params = {"sessionId": "s", "update": update}
        print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}))
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.usefixtures("require_npm")
@pytest.mark.parametrize(("versions", "answer"), [("2", "0 1 2 "), ("1", "")])
async def test_an_agent_of_the_typescript_sdk_answers_in_either_version(
    versions: str, answer: str, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AGENT_VERSIONS", versions)
    async with api(TYPESCRIPT) as http:
        assert (await say(http, "stream 3"))[1] == answer


@pytest.mark.usefixtures("require_npm")
async def test_the_failure_of_the_work_in_version_2_is_the_failure_of_the_chat(api: Api) -> None:
    async with api(TYPESCRIPT) as http:
        chat = await ended(http, (await begin(http, "fail"))["data"])
        assert chat["status"] == "failed"


async def test_an_agent_that_dies_of_version_2_is_started_anew_and_counted_once(api: Api, tmp_path: Path) -> None:
    (tmp_path / "old.py").write_text(OLD)
    async with api([sys.executable, str(tmp_path / "old.py"), str(tmp_path / "log")]) as http:
        assert (await say(http, "hello"))[1] == "old"
        numbers = (await http.get("/metrics")).text
        assert 'acp_gateway_agents{bot="every other"} 1.0' in numbers
    asked = (tmp_path / "log").read_text().splitlines()
    assert asked == ["initialize 2", "initialize 1", "session/new ", "session/prompt "]


@pytest.mark.parametrize("version", [1, 2])
async def test_the_version_that_agents_are_asked_for_is_a_setting(version: int, api: Api, tmp_path: Path) -> None:
    record = tmp_path / "record"
    command = [sys.executable, "-m", "acp_server", "serve", f"{BUSY[1]}:agent", "--record", str(record)]
    async with api(command, protocol=version) as http:
        assert (await say(http, "echo hello"))[1] == "hello"
    asked = [entry["msg"] for entry in map(json.loads, record.read_text().splitlines()) if entry["dir"] == "in"]
    assert asked[0]["params"]["protocolVersion"] == version
