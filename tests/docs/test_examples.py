"""Every Python example in the guides runs and does what the guide says of it; so do the facts in their tables."""

import os
import re
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server import Agent, RpcError
from acp_server.agent.record import RecordedStream, Recorder
from acp_server.client import connect_agent
from acp_server.errors import INVALID_REQUEST, InvalidParams
from acp_server.testing import ScriptedAgent, ScriptedClient, memory_pair, scripted
from acp_server.wire.batch import BATCH_LIMIT
from tests.prefork import Prefork
from tests.session.children import SHOWS, announced
from tests.session.editor import CANCELLED, END_TURN, editing

from .blocks import DOCS, blocks, opened, run

pytestmark = pytest.mark.anyio
BIN = str(Path(sys.executable).parent)


# All of them


def test_every_block_is_tested_and_every_tested_block_is_there() -> None:
    text = "".join(path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    tested = {("agents.md", name) for name in re.findall(r'opened\("(\w+)"\)', text)}
    tested |= {(guide, name) for name, guide in re.findall(r'opened\("(\w+)", "([\w.]+)"\)', text)}
    tested |= set(re.findall(r'run\("([\w.-]+)", "(\w+)"\)', text))
    assert tested == set(blocks())


def test_every_link_in_the_guides_leads_somewhere() -> None:
    links = [
        (guide.name, link) for guide in DOCS.glob("*.md") for link in re.findall(r"\]\(([^)#:]+)\)", guide.read_text())
    ]
    assert len(links) > 1
    assert not [(guide, link) for guide, link in links if not (DOCS / link).exists()]


# agents.md


async def test_agents_admission() -> None:
    example = run("agents.md", "admission")
    async with editing(example["agent"]) as editor:
        session = await editor.open()
        await editor.ask(session)
        assert editor.said(session) == ["This is prompt 1."]
        example["prompts"]["today"] = 100
        assert (await editor.ask(session))["code"] == -31001


async def test_agents_whole() -> None:
    async with opened("whole") as (editor, session, _):
        assert await editor.ask(session, "one two") == END_TURN
        assert editor.said() == ["one ", "two "]


async def test_subagents_of_a_client_that_shows_them() -> None:
    async with opened("subagents", **SHOWS) as (editor, session, _):
        assert await editor.ask(session, "one two\nthree") == END_TURN
        assert editor.said(session) == ["3 words in 2 of 2 chapters"]
        children = {each["sessionId"] for each in announced(editor, session)}
        assert sorted(editor.said(child)[0] for child in children) == ["I read 'one two'.", "I read 'three'."]


async def test_subagents_of_any_other_client() -> None:
    async with opened("subagents") as (editor, session, _):
        assert await editor.ask(session, "one two\nthree") == END_TURN
        assert editor.said() == ["3 words in 2 of 2 chapters"]
        titles = [update["title"] for update in editor.client.updates(session) if "title" in update]
        assert sorted(titles) == ["Reader", "Reader", "count_words", "count_words"]


async def test_steering() -> None:
    async with opened("steering") as (editor, session, example):
        began, go_on = anyio.Event(), anyio.Event()

        async def do(step: str) -> str:
            began.set()
            await go_on.wait()
            return f"{step}. "

        example["do"] = do
        prompt = await editor.prompt(session, "one two")
        await began.wait()
        message = {"sessionId": session, "prompt": [{"type": "text", "text": "slowly"}]}
        assert await editor.client.result("_session/steering", message) == {"outcome": "injected"}
        go_on.set()
        assert await editor.answer(prompt) == END_TURN
        assert "".join(editor.said(session)) == "one. You said: slowly. two. "


async def test_agents_updates() -> None:
    async with opened("updates") as (editor, session, _):
        assert await editor.ask(session, "one two") == {"stopReason": "max_tokens"}
        kinds = [update["sessionUpdate"] for update in editor.client.updates()]
        assert kinds == ["plan", "tool_call", "tool_call_update", "agent_thought_chunk", "agent_message_chunk"]
        assert editor.said() == ["2 words."]


async def test_agents_sessions() -> None:
    async with opened("sessions") as (editor, session, example):
        assert await editor.ask(session, "/folder") == END_TURN
        assert await editor.ask(session, "second") == END_TURN
        assert editor.said() == ["/project", "Earlier you said '/folder'. "]
        assert await editor.ask(session, "/name My notes") == END_TURN
        notebook = example["agent"].find_session(editor.connection, session).data
        assert notebook.open
        await editor.client.result("session/close", {"sessionId": session})
        assert not notebook.open
        kinds = [update["sessionUpdate"] for update in editor.client.updates()]
        assert kinds[0] == "available_commands_update"
        assert editor.client.updates()[0]["availableCommands"][1]["input"] == {"hint": "TITLE"}
        assert kinds[-1] == "session_info_update"
        assert editor.client.updates()[-1]["title"] == "My notes"


async def test_agents_methods() -> None:
    example = run("agents.md", "methods")
    async with editing(example["agent"]) as editor:
        client = editor.client
        assert await client.result("_index/build", {"paths": ["a", "b"]}) == {"done": 2}
        assert await client.result("_index/count", {"limit": 7, "_meta": {"x": 1}}) == 7
        refused = await editor.refusal("_index/build", {"paths": "a"})
        assert (refused["code"], refused["data"]["problems"][0]["path"]) == (-32602, "paths")
        assert await editor.refusal("_index/build", [["a"]]) == {"code": -32602, "message": "Invalid params"}
        await client.notify("_index/opened", {"path": "a.txt"})
        await editor.settled()
        assert example["opened"] == ["a.txt"]

        begun = anyio.Event()

        async def hang(path: str) -> None:
            if path == "b":
                begun.set()
                await anyio.sleep_forever()

        example["index"] = hang
        id = await client.request("_index/build", {"paths": ["a", "b"]})
        await begun.wait()
        await editor.withdraw(id)
        assert await editor.answer(id) == {"done": 1}


async def test_agents_mount() -> None:
    async with editing(run("agents.md", "mount")["agent"]) as editor:
        assert await editor.client.result("_math/add", {"a": 1, "b": 2}) == 3


@pytest.mark.parametrize("choice", ["yes", "no"])
async def test_agents_client(choice: str) -> None:
    async with opened("client") as (editor, session, _):
        client = editor.client
        client.answer("fs/read_text_file", {"content": "hush"})
        client.answer("fs/write_text_file", {})
        client.answer("session/request_permission", {"outcome": {"outcome": "selected", "optionId": choice}})
        assert await editor.ask(session, "a.txt") == END_TURN
        written = [message["params"] for message in client.all("fs/write_text_file")]
        expected = {"sessionId": session, "path": "/project/a.txt", "content": "HUSH"}
        assert written == ([expected] if choice == "yes" else [])
        assert client.updates()[-1]["status"] == ("completed" if choice == "yes" else "failed")


async def test_agents_client_that_has_no_files() -> None:
    async with editing(run("agents.md", "client")["agent"], capabilities={}) as editor:
        assert await editor.ask(await editor.open(), "a.txt") == END_TURN
        assert editor.said() == ["This client has no files to offer."]
        assert not editor.asked()


async def test_agents_terminal() -> None:
    async with opened("terminal") as (editor, session, _):
        client = editor.client
        client.answer("terminal/create", {"terminalId": "t1"})
        client.answer("terminal/wait_for_exit", {"exitCode": 0})
        client.answer("terminal/output", {"output": "built", "truncated": False, "exitStatus": {"exitCode": 0}})
        client.answer("terminal/release", {})
        assert await editor.ask(session) == END_TURN
        assert client.updates()[-1]["rawOutput"] == "built"
        assert editor.asked("terminal/")[-1] == "terminal/release"


async def test_agents_terminal_that_is_left_by_a_cancel() -> None:
    async with opened("terminal") as (editor, session, _):
        client = editor.client
        client.answer("terminal/create", {"terminalId": "t1"})
        client.answer("terminal/kill", {})
        client.answer("terminal/output", {"output": "some", "truncated": False})
        client.answer("terminal/release", {})
        id = await editor.prompt(session)
        await client.expect("terminal/wait_for_exit")
        await editor.cancel(session)
        assert await editor.answer(id) == CANCELLED
        assert editor.asked("terminal/")[-3:] == ["terminal/kill", "terminal/output", "terminal/release"]


async def test_agents_settings() -> None:
    async with opened("settings") as (editor, session, _):
        client = editor.client
        params = {"sessionId": session, "configId": "model", "value": "large"}
        assert (await client.result("session/set_config_option", params))["configOptions"][0]["currentValue"] == "large"
        await client.result("session/set_mode", {"sessionId": session, "modeId": "code"})
        assert await editor.ask(session) == END_TURN
        assert editor.said() == ["code, large"]
        assert client.updates()[-1] == {"sessionUpdate": "current_mode_update", "currentModeId": "ask"}
        root = await editor.open("/")
        refused = await editor.refusal("session/set_mode", {"sessionId": root, "modeId": "code"})
        assert refused == {"code": -32602, "message": "Not in the root folder"}


async def test_dependent_options() -> None:
    async with opened("dependent") as (editor, session, example):

        async def choose(id: str, value: str) -> dict[str, list[str]]:
            params = {"sessionId": session, "configId": id, "value": value}
            options = (await editor.client.result("session/set_config_option", params))["configOptions"]
            return {each["id"]: [each["currentValue"], *(one["value"] for one in each["options"])] for each in options}

        model = ["small", "large"]
        assert await choose("model", "large") == {"model": ["large", *model], "effort": ["low", "low", "high"]}
        assert (await choose("effort", "high"))["effort"][0] == "high"
        await editor.ask(session)
        assert (await choose("model", "small"))["effort"] == ["low", "low"]
        await editor.ask(session)
        assert editor.said() == ["large, high", "small, low"]
        # Only the answers have told the client.
        assert not [m for m in editor.client.received if "config_option_update" in str(m)]
        await example["agent"].find_session(editor.connection, session).set_options()
        await editor.settled()
        assert [m for m in editor.client.received if "config_option_update" in str(m)]


async def test_own_settings() -> None:
    async with opened("own_settings") as (editor, session, example):

        async def choose(id: str, value: str) -> Any:
            params = {"sessionId": session, "configId": id, "value": value}
            return await editor.answer(await editor.client.request("session/set_config_option", params))

        assert (await choose("model", "large"))["configOptions"][0]["currentValue"] == "large"
        assert (await choose("max_turns", "7"))["configOptions"][0]["currentValue"] == "large"
        assert (await choose("model", "huge"))["code"] == (await choose("colour", "red"))["code"] == -32602
        # What the agent keeps for all sessions counts, and not what was chosen here.
        example["stands"]["model"] = "small"
        assert (await choose("max_turns", "8"))["configOptions"][0]["currentValue"] == "small"
        await editor.ask(session)
        assert editor.said() == ["plan, {'model': 'small', 'max_turns': '8'}"]


ZED = {"name": "zed", "version": "1"}


async def test_answers() -> None:
    async with editing(run("agents.md", "answers")["agent"], initialize=False) as editor:
        told = await editor.client.result("initialize", {"protocolVersion": 1, "clientInfo": ZED})
        assert told["agentCapabilities"]["_meta"]["example.org/fork"] == {}
        new = await editor.client.result("session/new", {"cwd": "/project", "mcpServers": []})
        assert new["_meta"] == {"workspace_trust": {"status": "trusted"}}
        answer = await editor.ask(new["sessionId"], messageId="m")
        assert answer == {**END_TURN, "_meta": {"example.org/asked": "m"}}


async def test_agents_login() -> None:
    async with editing(run("agents.md", "login")["agent"]) as editor:
        new = {"cwd": "/project", "mcpServers": []}
        assert (await editor.refusal("session/new", new))["code"] == -32000
        wrong = await editor.refusal("authenticate", {"methodId": "account", "_meta": {"token": "guess"}})
        assert wrong == {"code": -32000, "message": "The token is not valid"}
        await editor.client.result("authenticate", {"methodId": "account", "_meta": {"token": "secret"}})
        session = await editor.open()
        await editor.client.result("logout", {})
        assert (await editor.refusal("session/new", new))["code"] == -32000
        assert await editor.ask(session) == END_TURN


async def test_agents_store() -> None:
    async with opened("store") as (editor, session, example):
        saved = example["store"].saved
        assert await editor.ask(session) == END_TURN
        assert example["store"].saved == saved + 1


async def test_agents_embed() -> None:
    with anyio.fail_after(10):
        await run("agents.md", "embed")["main"]()


def test_the_error_of_ones_own_is_raised_as_the_guide_says() -> None:
    [source] = re.findall(r"`(RpcError\(.*?\))`", (DOCS / "agents.md").read_text("utf-8"))
    error = eval(source, {"RpcError": RpcError})
    assert error.to_wire() == {"code": 5, "message": "Out of tokens", "data": {"left": 0}}


def test_the_bound_of_a_batch_is_true() -> None:
    said = re.search(r"batch may have (\d+) messages\. .*single error \((-\d+)\)", (DOCS / "agents.md").read_text())
    assert said
    assert [*map(int, said.groups())] == [BATCH_LIMIT, INVALID_REQUEST]


# clients.md


async def test_clients_spawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", BIN + os.pathsep + os.environ["PATH"])
    (tmp_path / "a.txt").write_text("needle\n")
    with anyio.fail_after(30):
        said = await run("clients.md", "spawn")["ask"](str(tmp_path), "/search needle")
        assert said == await run("start-client.md", "ask")["ask"](["acp-server"], str(tmp_path), "/search needle")
    assert "a.txt:1:1: needle" in said


async def test_clients_cancel(tmp_path: Path, forks: Prefork) -> None:
    for number in range(50):
        (tmp_path / f"{number}.txt").write_text("needle in a long line of hay\n" * 500)
    with anyio.fail_after(30):
        agent = list(forks.stand_in(["-m", "acp_server"]))
        pieces, reason = await run("clients.md", "cancel")["first_words"](agent, str(tmp_path), "/search needle")
    assert reason == "cancelled"
    assert pieces > 1


async def test_clients_lasting(tmp_path: Path, forks: Prefork) -> None:
    chat = run("clients.md", "lasting")["Chat"](list(forks.stand_in(["-m", "acp_server"])))
    with anyio.fail_after(30):
        session = await chat.open(str(tmp_path))
        assert session.response.session_id == session.id
        await chat.close()
    assert chat.agent.process.exit_code == 0


async def test_clients_knows_and_draft() -> None:
    example = run("clients.md", "knows")
    branch = run("clients.md", "draft")["branch"]
    here, there = memory_pair()
    async with ScriptedAgent(there) as peer, connect_agent(here) as agent:
        peer.answer("session/new", {"sessionId": "s1"})
        peer.answer("_example.org/branch", {"sessionId": "s2"})
        session = await example["begin"](agent, "/project")
        update = {"sessionUpdate": "session_info_update", "title": "t"}
        await peer.notify("session/update", {"sessionId": "s1", "update": update})
        await peer.barrier()
        assert example["seen"] == ["s1: session_info_update"]
        assert (await branch(agent, session)).id == "s2"
        assert peer.all("_example.org/branch")[0]["params"] == {"sessionId": "s1", "cwd": "/project"}


async def test_clients_settings() -> None:
    carefully = run("clients.md", "settings")["carefully"]
    here, there = memory_pair()
    agent = run("agents.md", "settings")["agent"]
    async with anyio.create_task_group() as group:
        group.start_soon(agent.connect(there).run)
        async with connect_agent(here) as remote:
            await remote.initialize()
            session = await remote.new_session("/project")
            await session.set_mode("code")
            await carefully(session, "large")
            assert session.modes is not None
            assert session.modes.current_mode_id == "ask"
            with pytest.raises(InvalidParams, match=r"\(problems: value: is not one of this option's values\)"):
                await carefully(session, "huge")
            with pytest.raises(InvalidParams, match="modeId: is not one"):
                await session.set_mode("nosuch")
            assert session.config_options[0].to_wire()["currentValue"] == "large"
            assert await session.ask("hello") == "ask, large"


async def test_clients_handlers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text")
    example = run("clients.md", "handlers")
    here, there = memory_pair()
    async with ScriptedAgent(there) as agent, connect_agent(here, example["handlers"](str(tmp_path))) as remote:
        agent.answer("initialize", {"protocolVersion": 1})
        await remote.initialize()
        announced = agent.received[0]["params"]["clientCapabilities"]
        assert announced["fs"] == {"readTextFile": True, "writeTextFile": False}
        assert announced["terminal"] is True
        read = {"sessionId": "s1", "path": str(tmp_path / "a.txt")}
        assert await agent.result("fs/read_text_file", read) == {"content": "text"}
        assert await agent.result("_git/branch", {"folder": "x"}) == {"branch": "main"}
        assert (await agent.ask("_git/branch", {}))["error"]["code"] == -32602
        await agent.notify("_git/moved", {"to": "other"})
        options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
        question = {"sessionId": "s1", "toolCall": {"toolCallId": "c1"}, "options": options}
        answer = await agent.result("session/request_permission", question)
        assert answer == {"outcome": {"outcome": "selected", "optionId": "y"}}
        assert example["asked"] == ["other", "c1"]


async def test_clients_sessions() -> None:
    history = run("clients.md", "sessions")["history"]
    here, there = memory_pair()
    agent = run("agents.md", "whole")["agent"]
    async with anyio.create_task_group() as group:
        group.start_soon(agent.connect(there).run)
        async with connect_agent(here) as remote:
            await remote.initialize()
            session = await remote.new_session("/project")
            await session.run("one two")
            updates = await history(remote, session.id, "/project")
            assert [update.content.text for update in updates] == ["one two", "one two "]


async def test_clients_errors(forks: Prefork) -> None:
    check = run("clients.md", "errors")["check"]
    with pytest.raises(FileNotFoundError):
        await check(["/no/such/command"])
    with anyio.fail_after(30):
        assert await check(list(forks.stand_in(["-m", "acp_server"]))) == "acp-server answers -32601"
        dying = [sys.executable, "-c", "import sys; sys.exit('no licence')"]
        assert await check(dying) == "it ended with status 1: no licence"


# testing.md


async def test_testing_talk() -> None:
    example = run("testing.md", "talk")
    await example["test_it_shouts_with_approval"]()
    await example["test_it_leaves_the_file_alone_without"]()


async def test_testing_agent() -> None:
    example = run("testing.md", "agent")
    await example["test_it_reads_through_the_client"]()
    await example["test_a_cancel_withdraws_the_reading"]()


async def test_testing_client() -> None:
    await run("testing.md", "client")["test_it_takes_what_the_agent_says"]()


async def test_testing_faults() -> None:
    example = run("testing.md", "faults")
    await example["test_a_message_may_arrive_byte_by_byte"]()
    await example["test_a_client_that_does_not_read_can_still_cancel"]()


async def test_testing_checks(tmp_path: Path) -> None:
    example = run("testing.md", "checks")
    await example["test_the_store_keeps_its_contract"](tmp_path)
    await example["test_the_stream_keeps_its_contract"]()


async def test_testing_recording(tmp_path: Path) -> None:
    agent = Agent("recorded")
    path = tmp_path / "talk.ndjson"

    async def serve(stream: Any) -> None:
        await agent.connect(RecordedStream(stream, Recorder(path))).run()

    async with scripted(serve) as client:
        await client.result("initialize", {"protocolVersion": 1})
        await client.notify("_hello")
    assert run("testing.md", "recording")["methods"](path) == ["initialize", "_hello"]


def test_the_table_of_the_scripted_client_names_what_it_has() -> None:
    text = (DOCS / "testing.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (?:send|request and wait|wait|answer the other side|look back) \| (.*) \|$", text, re.MULTILINE
    )
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert len(rows) == 5
    attributes = [*dir(ScriptedClient), "received", "transcript"]
    assert not [name for name in names if name not in attributes]
