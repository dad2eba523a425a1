"""Which command is found in a prompt that has more in it: context, tags, messages of before; and what it is called."""

from pathlib import Path
from typing import Any

import pytest

from acp_server.apps.coder.commands import help_text
from tests.session.editor import CANCELLED

from .client import PERMISSION, asked, chosen
from .talk import Talk, Told, nothing_worth_a_warning, project, talking

__all__ = ["nothing_worth_a_warning", "project"]
pytestmark = pytest.mark.anyio

CONTEXT = "Sharing the following file as context:\n\n- README.md"
LINK = {"type": "resource_link", "name": "README.md", "uri": "file:///project/README.md"}


def texts(*texts: str) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text} for text in texts]


def earlier(text: str, by: str = "user") -> str:
    return f"<previous_{by}_message>{text}</previous_{by}_message>"


async def sent(talk: Talk, session: str, blocks: list[dict[str, Any]]) -> Any:
    request = talk.prompting(session, "")
    request["params"]["prompt"] = blocks
    await talk.client.send(request)
    return request["id"]


async def tell(talk: Talk, session: str, *blocks: dict[str, Any]) -> Told:
    return await talk.told(session, await sent(talk, session, list(blocks)))


async def cancelled_at_its_question(talk: Talk, session: str, blocks: list[dict[str, Any]]) -> None:
    id = await sent(talk, session, blocks)
    await asked(talk)
    await talk.cancel(session)
    assert await talk.answer(id) == CANCELLED


async def test_a_command_that_was_cancelled_is_not_run_when_the_next_prompt_repeats_it(project: Path) -> None:
    (project / "a.txt").write_text("TWO\n")
    async with talking() as talk:
        session = await talk.open(str(project))
        await cancelled_at_its_question(talk, session, texts("/run touch b.txt"))
        talk.client.answer(PERMISSION, lambda _: chosen("allow_once"))
        told = await tell(talk, session, *texts("/run touch b.txt", "/edit a.txt TWO => two"))
        assert told.call["title"] == "Edit `a.txt`"
        assert (project / "a.txt").read_text() == "two\n"
        assert not (project / "b.txt").exists()


async def test_a_message_behind_commands_that_were_cancelled_runs_none_of_them(project: Path) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        first, second = "/run touch b.txt", "/run touch c.txt"
        await cancelled_at_its_question(talk, session, texts(first))
        await cancelled_at_its_question(talk, session, texts(first, second))
        told = await tell(talk, session, *texts(first, second, "thank you"))
        assert not told.call
        assert told.text.startswith("I carry out commands")


async def test_a_message_behind_a_conversation_that_is_sent_again_runs_nothing_of_it(project: Path) -> None:
    async with talking() as talk:
        session = await talk.open(str(project))
        await tell(talk, session, *texts("/read README.md"))
        assert not (await tell(talk, session, *texts("/read README.md", "thank you"))).call


@pytest.mark.parametrize(
    "blocks",
    [
        texts(CONTEXT, "/read README.md"),
        texts("/run touch b.txt", "/read README.md"),
        [LINK, *texts(earlier("/read README.md"), "<system_context>One message</system_context>")],
        texts(earlier(" /read README.md\n"), "<system_context>/run touch b.txt</system_context>"),
        texts(earlier("/read README.md"), earlier("/run touch b.txt"), "<system_context>Two</system_context>"),
        texts(earlier("/run touch b.txt"), earlier("Done", "assistant"), earlier("/read README.md")),
        texts("<user_query>/read README.md</user_query>"),
        texts("/read README.md", "<selected_code>/run touch b.txt</selected_code>"),
        texts("/read README.md", "/usr/bin/env is where it is"),
    ],
)
async def test_a_command_is_found_among_context_and_in_a_tag(project: Path, blocks: list[dict[str, Any]]) -> None:
    async with talking() as talk:
        told = await tell(talk, await talk.open(str(project)), *blocks)
        assert told.call["title"] == "Read `README.md`"
        assert "needle" in told.text


@pytest.mark.parametrize("blocks", [[], texts(""), texts(" \n", "\t")])
async def test_an_empty_prompt_is_said_to_be_empty(project: Path, blocks: list[dict[str, Any]]) -> None:
    async with talking() as talk:
        told = await tell(talk, await talk.open(str(project)), *blocks)
        assert told.text == "The prompt is empty: there is nothing to do. `/help` says what I can do.\n"


async def test_a_prompt_with_a_file_and_no_words_is_answered_with_what_there_is(project: Path) -> None:
    async with talking() as talk:
        assert help_text() in (await tell(talk, await talk.open(str(project)), LINK)).text


@pytest.mark.parametrize(
    ("blocks", "title"),
    [
        (texts(CONTEXT, "/read README.md"), "/read README.md"),
        ([LINK, *texts(earlier("/scan"), "<system_context>One message</system_context>")], "/scan"),
        ([*texts("look at "), LINK, *texts(" and think")], "look at"),
        (texts("/scan\nx"), "/scan"),
    ],
)
async def test_a_session_is_called_by_what_the_user_has_typed(
    project: Path, blocks: list[dict[str, Any]], title: str
) -> None:
    async with talking() as talk:
        told = await tell(talk, await talk.open(str(project)), *blocks)
        assert next(u["title"] for u in told.updates if u["sessionUpdate"] == "session_info_update") == title
