"""Agents as real processes: driven, lost, and ended without leftovers."""

import sys
from pathlib import Path

import anyio
import pytest

from acp_server.client import AgentExited, spawn_agent
from acp_server.errors import RequestTimeout, RpcError, UsageError
from tests.client.processes import HURRY, PATIENCE, Ear, Spawn, gone
from tests.client.talking import text

pytestmark = pytest.mark.anyio


async def test_an_agent_is_started_prompted_cancelled_and_ended_by_closing_its_input(spawn: Spawn, ear: Ear) -> None:
    async with spawn() as agent:
        pids = await ear.pids()
        await agent.initialize()
        session = await agent.new_session("/")
        async with session.prompt("one two") as turn:
            assert [text(update) async for update in turn] == ["one", "two"]
        assert turn.stop_reason == "end_turn"
        async with session.prompt("hang") as turn:
            assert text(await anext(turn)) == "hang"
            turn.cancel()
            assert (await turn.wait()).stop_reason == "cancelled"
    assert await ear.line() == "saw the end"
    gone(*pids)


async def test_it_gets_its_folder_and_variables_besides_our_own(spawn: Spawn, tmp_path: Path) -> None:
    async with spawn(cwd=tmp_path, env={"X": "1"}) as agent:
        assert await agent.request("_where") == {"cwd": str(tmp_path), "x": "1", "path": True}


async def test_a_program_that_is_not_there_cannot_be_started(tmp_path: Path) -> None:
    for command, cwd in ((["no-such-agent"], None), ([sys.executable], tmp_path / "nowhere"), ("no such agent", None)):
        with pytest.raises(OSError, match="No such file"):
            async with spawn_agent(command, cwd=cwd):
                pass


async def test_an_empty_command_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="empty"):
        async with spawn_agent([]):
            pass


# Lost


@pytest.mark.behaviour("G1")
async def test_an_agent_that_dies_at_start_is_reported_with_its_status_and_the_end_of_its_log(spawn: Spawn) -> None:
    with anyio.fail_after(PATIENCE):
        async with spawn("dies at start") as agent:
            with pytest.raises(AgentExited) as exited:
                await agent.initialize()
            assert exited.value.exit_code == 3
            assert exited.value.method == "initialize"
            assert exited.value.stderr == "loading\ncannot find the model"
            assert str(exited.value) == (
                "the agent exited with status 3; it ended before it answered initialize; the end of its log:\n"
                "    loading\n    cannot find the model"
            )
            with pytest.raises(AgentExited):
                await agent.request("_again")


@pytest.mark.parametrize(("how", "code"), [("die", 9), ("kill", -9), ("half", 0)])
@pytest.mark.behaviour("G16")
async def test_an_agent_that_dies_in_a_turn_fails_it_behind_its_updates(spawn: Spawn, how: str, code: int) -> None:
    async with spawn() as agent:
        await agent.initialize()
        session = await agent.new_session("/")
        async with session.prompt(how) as turn:
            assert text(await anext(turn)) == how
            with pytest.raises(AgentExited) as exited:
                await anext(turn)
        assert exited.value.exit_code == code
        assert exited.value.stderr == ("out of tokens" if how == "die" else "")
        assert ("signal 9" in str(exited.value)) == (how == "kill")


async def test_an_agent_that_never_answers_can_be_given_up(spawn: Spawn, ear: Ear) -> None:
    async with spawn("mute") as agent:
        pids = await ear.pids()
        with pytest.raises(RequestTimeout):
            await agent.initialize(timeout=0.01)
    gone(*pids)


async def test_garbage_on_its_output_does_not_disturb_what_else_it_says(spawn: Spawn) -> None:
    async with spawn("garbage") as agent:
        await agent.initialize()
        assert (await (await agent.new_session("/")).run("one")).stop_reason == "end_turn"
        with pytest.raises(RpcError, match="Method not found"):
            await agent.request("_what")


async def test_an_agent_that_closes_its_output_and_lives_is_lost_and_ended(spawn: Spawn, ear: Ear) -> None:
    async with spawn("closes its output", patience=HURRY) as agent:
        pids = await ear.pids()
        with pytest.raises(AgentExited, match="although it still runs") as exited:
            await agent.initialize()
        assert exited.value.exit_code is None
        assert str(exited.value).startswith(
            "the agent closed its output although it still runs; it has not answered initialize"
        )
        # Nobody waits a second time to see whether it will still end.
        with anyio.fail_after(0.5), pytest.raises(AgentExited):
            await agent.request("_again")
    gone(*pids)


async def test_a_wrapper_that_dies_while_its_child_holds_the_output_open_is_noticed(spawn: Spawn, ear: Ear) -> None:
    with anyio.fail_after(PATIENCE):
        async with spawn("wrapper that dies") as agent:
            pids = await ear.pids()
            with pytest.raises(AgentExited, match="status 5"):
                await agent.initialize()
    gone(*pids)


async def test_standard_error_is_heard_line_by_line_and_its_end_is_kept(spawn: Spawn) -> None:
    heard: list[str] = []
    async with spawn("talkative", on_stderr=heard.append) as agent:
        await agent.initialize()
    assert heard == [f"line {n}" for n in range(5000)]


async def test_standard_error_goes_to_the_log_and_a_listener_that_fails_stops_nothing(
    spawn: Spawn, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(_line: str) -> None:
        raise ValueError("no")

    with caplog.at_level("INFO", "acp_server.client"):
        async with spawn("dies at start"):
            pass
        assert "cannot find the model" in caplog.text
        async with spawn("talkative", on_stderr=fails) as agent:
            await agent.initialize()
    assert "callback for the standard error of a process failed" in caplog.text
