"""The built-in agent in a conversation: its commands, its sessions, and the directories that it is given."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from acp_server.apps.coder import agent
from acp_server.apps.coder import search as search_module
from acp_server.apps.coder.commands import help_text
from tests.session.editor import CANCELLED, END_TURN

from .talk import HIDDEN, Held, Talk, nothing_worth_a_warning, project, talking
from .trees import plant

__all__ = ["nothing_worth_a_warning", "project"]
pytestmark = pytest.mark.anyio
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="paths as POSIX has them")


# Commands


async def test_the_commands_are_offered_right_behind_the_answer_to_a_new_session(project: Path) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        await talk.settled()
        (update,) = talk.client.updates(session)
        commands = update["availableCommands"]
        assert [command["name"] for command in commands] == [
            "search",
            "read",
            "scan",
            "edit",
            "write",
            "run",
            "help",
        ]
        assert commands[0]["input"] == {"hint": "PATTERN [PATH ...]"}
        assert "input" not in commands[-1]


@pytest.mark.parametrize("text", ["/help", "  /HELP  ", "/help me"])
async def test_help_lists_every_command_and_runs_nothing(project: Path, text: str) -> None:
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), text)
        assert told.answer == END_TURN
        assert told.text == help_text() + "\n"
        assert not told.call


async def test_what_is_no_command_is_answered_with_what_there_is(project: Path) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        told = await talk.tell(session, "what is this project about?")
        assert told.answer == END_TURN
        assert told.text.startswith("I carry out commands and do not chat.")
        assert help_text() in told.text
        link = {"type": "resource_link", "name": "README.md", "uri": "file:///README.md"}
        request = talk.client.new_request("session/prompt", {"sessionId": session, "prompt": [link]})
        await talk.client.send(request)
        assert (await talk.told(session, request["id"])).text == told.text


async def test_an_unknown_command_is_named_together_with_the_known_ones(project: Path) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        told = await talk.tell(session, "/serach needle")
        assert told.answer == END_TURN
        assert told.text == "No such command: `/serach`. There is /search, /read, /scan, /edit, /write, /run, /help.\n"
        told = await talk.tell(session, "/\x1b[31m")
        assert "\x1b" not in told.text


@pytest.mark.parametrize("command", ["/search", "/read", "/search ( x", "/search (", "/search \\p{Nonsense}"])
async def test_a_command_that_cannot_be_carried_out_is_answered_with_a_sentence(project: Path, command: str) -> None:
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), command)
        assert told.answer == END_TURN
        assert len(told.text.splitlines()) == 1
        assert not told.call


# Directories


@pytest.mark.parametrize("name", ["missing", "README.md", "README.md/below", "\ud800", "x" * 300, "x/" * 3000])
async def test_a_working_directory_that_is_none_is_refused_without_a_word_about_what_is_there(
    project: Path, name: str
) -> None:
    async with talking() as talk:
        params = {"cwd": f"{project}/{name}", "mcpServers": []}
        error = await talk.refusal("session/new", params)
        problems = [{"path": "cwd", "message": "is not a directory"}]
        assert error == {"code": -32602, "message": "Invalid params", "data": {"problems": problems}}
        assert (await talk.tell(await talk.open(str(project)), "/help")).answer == END_TURN


@posix_only
@pytest.mark.parametrize("path", ["C:\\elsewhere", "/\ud800"])
async def test_an_additional_directory_that_cannot_exist_here_is_refused(project: Path, path: str) -> None:
    async with talking() as talk:
        error = await talk.refusal(
            "session/new", {"cwd": str(project), "mcpServers": [], "additionalDirectories": [path]}
        )
        assert (error["code"], error["message"]) == (-32602, "Invalid params")
        assert error["data"]["problems"][0]["path"] == "additionalDirectories"


async def test_additional_directories_are_searched_under_the_names_that_the_client_has_for_them(
    project: Path, tmp_path: Path
) -> None:
    plant(tmp_path / f"{HIDDEN}-too", {"lib.txt": "needle\n"})
    (tmp_path / "library").symlink_to(tmp_path / f"{HIDDEN}-too", target_is_directory=True)
    async with talking() as talk:
        extra = [str(tmp_path / "library"), str(tmp_path / "not-there")]
        session = await talk.open(str(project), additionalDirectories=extra)
        told = await talk.tell(session, "/search needle")
        assert told.hits == [
            "README.md:2:1: needle",
            "src/app.py:1:9: # TODO: needle",
            f"{tmp_path.as_posix()}/library/lib.txt:1:1: needle",
        ]
        assert told.call["locations"][-1] == {"path": str(tmp_path / "library" / "lib.txt"), "line": 1}
        assert told.text.endswith("3 hits in 3 files.\n1 place could not be searched.\n")
        told = await talk.tell(session, f"/read {tmp_path / 'library' / 'lib.txt'}")
        assert "needle" in told.text


@pytest.mark.parametrize("command", ["/search needle", "/read", "/scan"])
@pytest.mark.parametrize("path", ["..", "../outside.txt", "/etc/passwd", "~/x", "src/../../outside.txt", "link"])
async def test_a_path_outside_is_refused_and_nothing_of_it_is_told(project: Path, command: str, path: str) -> None:
    plant(project.parent, {"outside.txt": "needle secret\n"})
    (project / "link").symlink_to(project.parent / "outside.txt")
    async with talking() as talk:
        told = await talk.tell(await talk.open(str(project)), f"{command} {path}")
        assert told.answer == END_TURN
        assert told.text in (
            f"Outside the session's directories: `{path}`\n",
            f"Home directories are outside the session's directories: `{path}` "
            f"(for a file with this name, write `./{path}`)\n",
        )
        assert told.call["status"] == "failed"
        assert "secret" not in str(talk.client.received)


async def test_a_working_directory_that_vanishes_between_two_prompts_is_no_fault(project: Path) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        shutil.rmtree(project.parent / HIDDEN)
        told = await talk.tell(session, "/search needle")
        assert told.answer == END_TURN
        assert told.text == "0 hits in 0 files.\n1 place could not be searched.\n"
        assert (await talk.tell(session, "/read README.md")).text == "No such file: `README.md`\n"
        told = await talk.tell(session, "/scan")
        assert told.text == "0 files, 0 bytes, 0 lines\n\n1 place could not be read.\n"


async def test_a_working_directory_that_vanishes_in_the_middle_of_a_search_ends_it_with_what_there_was(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(after=1)
    monkeypatch.setattr(search_module, "files_below", held.files_below)
    async with talking() as talk:
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/search needle")
        await talk.client.expect(lambda m: "README.md:2:1" in str(m))
        shutil.rmtree(project.parent / HIDDEN)
        held.go_on.set()
        told = await talk.told(session, id)
        assert told.answer == END_TURN
        assert told.text == "~~~~\nREADME.md:2:1: needle\n~~~~\n1 hit in 1 file.\n1 place could not be searched.\n"


# Sessions


@pytest.mark.parametrize("by", ["session", "request"])
async def test_of_two_sessions_that_search_only_the_cancelled_one_ends(
    project: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    held = Held(after=1)
    monkeypatch.setattr(search_module, "files_below", held.files_below)
    async with talking() as talk:
        first, second = await talk.open(str(project)), await talk.open(str(project))
        searching = [await talk.prompt(first, "/search needle"), await talk.prompt(second, "/search needle")]
        for _ in searching:
            await talk.client.expect(lambda m: "README.md:2:1" in str(m))
        await (talk.cancel(first) if by == "session" else talk.withdraw(searching[0]))
        assert (await talk.told(first, searching[0])).answer == CANCELLED
        held.go_on.set()
        told = await talk.told(second, searching[1])
        assert told.answer == END_TURN
        assert told.output == {"hits": 2, "files": 2, "partial": False}


async def test_a_loaded_session_shows_again_what_its_cancelled_search_showed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        before = await cancelled_search(talk, session, monkeypatch)
        await talk.client.result("session/close", {"sessionId": session})
        seen = len(talk.client.updates(session))
        await talk.client.result("session/load", {"sessionId": session, "cwd": str(project), "mcpServers": []})
        replayed = [u for u in talk.client.updates(session)[seen:] if u["sessionUpdate"] != "available_commands_update"]
        user, call, said, end, info = replayed
        assert end["content"]["text"] == "[stopped]"
        assert (info["sessionUpdate"], info["title"]) == ("session_info_update", "/search needle")
        assert user["content"]["text"] == "/search needle"
        assert said["content"]["text"] == before.text
        assert call == before.call | {"sessionUpdate": "tool_call"}
        assert (await talk.tell(session, "/read README.md:2")).answer == END_TURN


async def cancelled_search(talk: Talk, session: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    with monkeypatch.context() as patch:
        patch.setattr(search_module, "files_below", Held(after=1).files_below)
        id = await talk.prompt(session, "/search needle")
        await talk.client.expect(lambda m: "locations" in str(m))
        await talk.cancel(session)
        return await talk.told(session, id)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("/help", "/help"),
        ("  /search   two  words \nmore", "/search two words"),
        ("/read " + "a" * 40 + " " + "b" * 40, "/read " + "a" * 40 + " ..."),
    ],
)
async def test_a_session_is_listed_by_the_beginning_of_its_first_prompt(project: Path, text: str, title: str) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        for said in (text, "/help me again"):
            await talk.tell(session, said)
        names = [u["title"] for u in talk.client.updates(session) if u["sessionUpdate"] == "session_info_update"]
        assert names == [title]
        listed = (await talk.client.result("session/list", {}))["sessions"]
        assert {each["sessionId"]: each.get("title") for each in listed}[session] == title


async def test_a_store_that_fails_while_a_session_is_named_spoils_no_turn(
    project: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))

        def full(record: object) -> None:
            raise OSError("the disk is full")

        monkeypatch.setattr(agent.store, "save", full)
        told = await talk.tell(session, "/help")
        assert (told.answer, told.text) == (END_TURN, help_text() + "\n")
    assert "was not saved" in caplog.text
    caplog.clear()
