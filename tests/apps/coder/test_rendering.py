"""What the built-in agent says, put through a renderer of Markdown as clients do it, update by update."""

from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from .talk import Talk, Told, nothing_worth_a_warning, project, talking
from .trees import plant

__all__ = ["nothing_worth_a_warning", "project"]
pytestmark = pytest.mark.anyio
COMMANDS = ["/search needle", "/search needle src README.md", "/read README.md", "/scan", "/search (", "/help", "hello"]


def rendered(text: str) -> list[Token]:
    return MarkdownIt().enable("table").parse(text)


def is_in_a_fence(text: str) -> bool:
    """Whether a line that comes behind this text would be code."""
    last = [token for token in rendered(f"{text}\n\nsentinel") if token.type in ("fence", "inline")][-1]
    return last.type == "fence"


async def told(talk: Talk, project: Path, command: str) -> Told:
    plant(project, {f"src/{n}.py": "~~~~ needle\n``` needle `x` \n" + "y" * 5000 + " needle\n" for n in range(40)})
    return await talk.tell(await talk.open(str(project)), command)


@pytest.mark.parametrize("command", COMMANDS)
async def test_no_update_comes_inside_of_a_fence(project: Path, command: str) -> None:
    async with talking() as talk:
        said = ""
        for update in (await told(talk, project, command)).updates:
            if update["sessionUpdate"] == "agent_message_chunk":
                said += update["content"]["text"]
            else:
                assert not is_in_a_fence(said)
        assert said
        assert not is_in_a_fence(said)


@pytest.mark.parametrize("command", COMMANDS)
async def test_the_first_piece_of_what_is_said_is_one_line_or_all(project: Path, command: str) -> None:
    # Textual's Markdown, and so Toad, begins the second piece with the last line of the first.
    async with talking() as talk:
        it = await told(talk, project, command)
        first = next(u["content"]["text"] for u in it.updates if u["sessionUpdate"] == "agent_message_chunk")
        assert first == it.text or first.count("\n") == 1


async def test_hits_are_blocks_of_code_with_a_hit_a_line_and_what_it_came_to_stands_below(project: Path) -> None:
    async with talking() as talk:
        it = await told(talk, project, "/search needle")
        *blocks, paragraph = [token for token in rendered(it.text) if token.type in ("fence", "inline")]
        assert {block.type for block in blocks} == {"fence"}
        lines = [line for block in blocks for line in block.content.splitlines()]
        assert len(lines) == it.output["hits"] == 122
        assert paragraph.content == "122 hits in 42 files."
        # 200 characters of a long line, and its place.
        assert max(map(len, lines)) < 240


async def test_the_places_of_hits_are_linked_and_no_more_than_a_client_can_follow(project: Path) -> None:
    async with talking() as talk:
        it = await told(talk, project, "/search needle")
        assert len(it.call["locations"]) == 100
        assert {"path": str(project / "src" / "0.py"), "line": 1} in it.call["locations"]


@pytest.mark.parametrize("command", COMMANDS)
async def test_the_session_is_called_after_its_first_prompt_before_anything_is_said(
    project: Path, command: str
) -> None:
    async with talking() as talk:
        first, *_ = (await told(talk, project, command)).updates
        assert (first["sessionUpdate"], first["title"]) == ("session_info_update", command)
