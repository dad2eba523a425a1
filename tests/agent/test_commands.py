"""Slash commands: what clients send, and what the functions of authors get of it."""

from collections.abc import AsyncGenerator
from enum import Enum
from pathlib import Path
from typing import Any, Literal

import pytest

from acp_server import Agent, Session, Turn, UsageError
from acp_server.schema import AvailableCommand
from tests.session.editor import END_TURN, Editor, editing
from tests.session.v2.editor import editing as editing_v2

pytestmark = pytest.mark.anyio


class Colour(Enum):
    """A choice of two."""

    RED = "red"
    BLUE = "blue"


def agent_with_commands() -> Agent:
    agent = Agent("commands")

    @agent.command("notes", hint="[REVISIONS]", description="Write notes.")
    async def notes(turn: Turn, revisions: str = "HEAD") -> AsyncGenerator[str]:
        yield f"notes of {revisions!r}"

    @agent.command("clear")
    async def clear(turn: Turn) -> str:
        """Forget everything.

        There is no way back.
        """
        return "clear"

    @agent.command("paint")
    async def paint(
        turn: Turn, colour: Colour, times: int = 1, how: Literal["thin", "thick"] = "thin", path: Path = Path()
    ) -> str:
        "Paint."
        return f"{colour.name} {times} {how} {path}"

    @agent.command("say")
    async def say(turn: Turn, to: str, words: str | None = None) -> str:
        "Say something."
        return f"{to!r}: {words!r}"

    @agent.prompt
    async def prompt(turn: Turn) -> str:
        return f"prompt {turn.text!r}"

    return agent


@pytest.fixture
def agent() -> Agent:
    return agent_with_commands()


async def said(editor: Editor, session: str, *texts: str, **more: Any) -> str:
    """What comes of a prompt of these blocks."""
    blocks = [{"type": "text", "text": text} for text in texts]
    before = len(editor.said())
    message = editor.client.new_request("session/prompt", {"sessionId": session, "prompt": blocks, **more})
    await editor.client.send(message)
    assert await editor.answer(message["id"]) == END_TURN
    return "".join(editor.said()[before:])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/notes", "notes of 'HEAD'"),
        ("/notes v1..v2", "notes of 'v1..v2'"),
        ("  /notes   v1 and 'v2'  \n", "notes of \"v1 and 'v2'\""),
        ("/notes\nfirst\nsecond", "notes of 'first\\nsecond'"),
        ("/NOTES it's", 'notes of "it\'s"'),
        ("/clear", "clear"),
        ("/clear all of it", "/clear takes no arguments. Type: /clear"),
        ("/paint red", "RED 1 thin ."),
        ("/paint  blue 3\tthick 'a b.txt'", "BLUE 3 thick a b.txt"),
        ('/paint blue 3 thick "a b.txt"', "BLUE 3 thick a b.txt"),
        (
            "/paint green x",
            "COLOUR: Input should be 'red' or 'blue'. TIMES: Input should be a valid integer, unable to parse string "
            "as an integer. Type: /paint COLOUR [TIMES] [HOW] [PATH]",
        ),
        ("/paint", "COLOUR: Field required. Type: /paint COLOUR [TIMES] [HOW] [PATH]"),
        (
            "/paint red 1 thin a b",
            "/paint takes 4 words, not 5. Type: /paint COLOUR [TIMES] [HOW] [PATH]",
        ),
        ("/say Ann", "'Ann': None"),
        ("/say 'Ann B' it's   \"late\" now", "'Ann B': 'it\\'s   \"late\" now'"),
        ("/unknown thing", "prompt '/unknown thing'"),
        ("/", "prompt '/'"),
        ("/notesy", "prompt '/notesy'"),
        ("what is /notes?", "prompt 'what is /notes?'"),
    ],
)
async def test_what_is_typed_behind_a_name_becomes_the_arguments(agent: Agent, text: str, expected: str) -> None:
    async with editing(agent) as editor:
        assert await said(editor, await editor.open(), text) == expected


async def test_a_command_is_found_behind_and_in_what_clients_put_around_it(agent: Agent) -> None:
    async with editing(agent) as editor:
        session = await editor.open()
        assert await said(editor, session, "Sharing the following file as context: ...", "/notes a") == "notes of 'a'"
        wrapped = ["<previous_user_message> /notes b</previous_user_message>", "<system_context>x</system_context>"]
        assert await said(editor, session, *wrapped) == "notes of 'b'"


async def test_a_command_of_a_turn_that_was_stopped_does_not_run_again(agent: Agent) -> None:
    ran: list[str] = []

    @agent.command("wait")
    async def wait(turn: Turn, what: str = "") -> None:
        ran.append(what)
        await turn.session.client.request("_wait")

    async with editing(agent) as editor:
        session = await editor.open()
        prompt = await editor.prompt(session, "/wait for it")
        await editor.client.expect_request("_wait")
        await editor.cancel(session)
        assert await editor.answer(prompt) == {"stopReason": "cancelled"}
        assert await said(editor, session, "/wait for it", "and now?") == "prompt 'and now?'"
    assert ran == ["for it"]


@pytest.mark.parametrize("editing", [editing, editing_v2], ids=["v1", "v2"])
async def test_clients_are_told_of_the_commands_when_a_session_opens(agent: Agent, editing: Any) -> None:
    async with editing(agent) as editor:
        session = await editor.open()
        await editor.client.barrier()
        (told,) = [u for u in editor.client.updates(session) if u["sessionUpdate"] == "available_commands_update"]
        listed = told.get("availableCommands") or told["commands"]
        assert [(each["name"], each["description"], (each.get("input") or {}).get("hint")) for each in listed] == [
            ("notes", "Write notes.", "[REVISIONS]"),
            ("clear", "Forget everything.", None),
            ("paint", "Paint.", "COLOUR [TIMES] [HOW] [PATH]"),
            ("say", "Say something.", "TO [WORDS]"),
        ]


async def test_a_session_handler_may_offer_others() -> None:
    agent = agent_with_commands()

    @agent.session
    async def prepare(session: Session) -> None:
        await session.set_commands([AvailableCommand(name="own", description="Mine.")])

    async with editing(agent) as editor:
        session = await editor.open()
        await editor.client.barrier()
        told = [u for u in editor.client.updates(session) if u["sessionUpdate"] == "available_commands_update"]
        assert [command["name"] for command in told[-1]["availableCommands"]] == ["own"]


async def test_an_agent_may_have_commands_alone() -> None:
    agent = Agent("alone")

    @agent.command("notes")
    async def notes(turn: Turn) -> str:
        return "notes"

    async with editing(agent) as editor:
        session = await editor.open()
        assert await said(editor, session, "/notes") == "notes"
        assert await said(editor, session, "hello") == "I understand commands: /notes."


async def takes_turn(turn: Turn) -> None: ...


async def takes_nothing() -> None: ...


async def takes_many(turn: Turn, *words: str) -> None: ...


def plain(turn: Turn) -> None: ...


@pytest.mark.parametrize(
    ("name", "function", "words"),
    [
        ("/notes", takes_turn, "the name of a command must be one word without a slash, such as 'notes', not '/notes'"),
        ("two words", takes_turn, "the name of a command must be one word"),
        ("", takes_turn, "the name of a command must be one word"),
        ("notes", takes_nothing, "the function of the command /notes must take the turn"),
        ("notes", plain, "the function of the command /notes must be `async def`"),
        ("notes", takes_many, "the parameter words cannot be passed by name"),
    ],
)
def test_a_function_that_cannot_be_a_command_is_refused(name: str, function: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Agent("a").command(name)(function)


def test_two_commands_of_one_name_are_refused() -> None:
    agent = Agent("a")
    agent.command("notes")(takes_turn)
    with pytest.raises(UsageError, match="there are two commands with the name 'Notes'"):
        agent.command("Notes")(takes_turn)
