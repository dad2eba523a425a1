"""What the user's "always" covers: what its label says, and nothing more."""

from pathlib import Path
from typing import Any

import pytest

from acp_server.apps.coder.change import is_delicate
from acp_server.paths import Place
from tests.session.editor import END_TURN

from .client import FILES, PERMISSION, Buffers, chosen
from .talk import Talk, nothing_worth_a_warning, project, talking

__all__ = ["nothing_worth_a_warning", "project"]


def labels(question: dict[str, Any]) -> dict[str, str]:
    return {option["kind"]: option["name"] for option in question["params"]["options"]}


async def questions(talk: Talk, session: str, *commands: str) -> list[int]:
    """How many questions each of these commands has asked."""
    counts: list[int] = []
    for command in commands:
        before = len(talk.asked(PERMISSION))
        assert (await talk.tell(session, command)).answer == END_TURN
        counts.append(len(talk.asked(PERMISSION)) - before)
    return counts


@pytest.mark.anyio
async def test_always_for_a_command_allows_that_command_and_nothing_longer(project: Path) -> None:
    async with talking() as talk:
        talk.client.answer(PERMISSION, chosen("allow_always"))
        session = await talk.open(str(project))
        same = "/run echo one"
        others = ["/run echo one; echo two", "/run echo  one", "/run echo onetwo", "/run echo", "/run ECHO one"]
        assert await questions(talk, session, same, same, *others, same) == [1, 0, *(1 for _ in others), 0]
        label = labels(talk.client.all(PERMISSION)[0])["allow_always"]
        assert label == "Run it, always in this session: exactly this command, in this directory"


@pytest.mark.anyio
async def test_always_for_a_command_holds_in_its_directory_and_is_not_taken_along(project: Path) -> None:
    other = project.parent / "other"
    other.mkdir()
    async with talking(capabilities={"fs": {}}) as talk:
        talk.client.answer(PERMISSION, chosen("allow_always"))
        session = await talk.open(str(project))
        assert await questions(talk, session, "/run echo one") == [1]
        await talk.client.result("session/load", {"sessionId": session, "cwd": str(other), "mcpServers": []})
        assert await questions(talk, session, "/run echo one") == [1]


@pytest.mark.anyio
@pytest.mark.parametrize("capabilities", [{}, FILES], ids=["on disk", "through the client"])
async def test_always_for_a_file_allows_that_file_alone(project: Path, capabilities: dict[str, Any]) -> None:
    async with talking(capabilities=capabilities) as talk:
        if capabilities:
            Buffers(talk, {project / name: "first\nneedle\n" for name in ("README.md", "src/app.py", "src/new.py")})
        talk.client.answer(PERMISSION, chosen("allow_always"))
        session = await talk.open(str(project))
        commands = ["/edit README.md needle => pin", "/write ./src/../README.md one", "/edit README.md one => two"]
        assert await questions(talk, session, *commands, "/write src/app.py new", "/write src/new.py new") == [
            *(1, 0, 0),
            *(1, 1),
        ]
        assert labels(talk.client.all(PERMISSION)[0])["allow_always"] == "Change it, always in this session: this file"


DELICATE = [
    ".git/config",
    ".GIT/hooks/pre-commit",
    "vendor/x/.git/config",
    ".git ./config",
    ".g\u200cit/config",
    "git~1/config",
    "VSCODE~1/settings.json",
    "GIT76C~2/x",
    "scripts/githooks/pre-commit",
    "hooks/post-checkout",
    ".vscode/settings.json",
    ".idea/workspace.xml",
    "my.code-workspace",
    "AGENTS.md",
    "docs/agents.MD",
    "CLAUDE.md",
    "AGENT.md",
    "skills/SKILL.md",
    "agent\u017f.md",
    ".env",
    ".env.local",
    "prod.env",
    ".github/workflows/ci.yml",
    ".pre-commit-config.yaml",
    ".gitattributes",
    "src/.envrc",
]
PLAIN = [
    "README.md",
    "src/app.py",
    "environment.py",
    "git/config",
    "webhooks/a.py",
    "agents.py",
    "a.b.md",
    "Makefile",
    "a~b.txt",
]


@pytest.mark.parametrize("name", DELICATE)
def test_what_has_programs_run_or_is_obeyed_is_delicate(name: str) -> None:
    assert is_delicate(Place("/project", "/" + name))


@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_file_is_not_delicate(name: str) -> None:
    assert not is_delicate(Place("/project", "/" + name))
    assert is_delicate(Place("/project/.git", "/" + name))


@pytest.mark.anyio
@pytest.mark.parametrize("set_to_approve", [False, True])
@pytest.mark.parametrize("name", [".git/config", "AGENTS.md", ".env", "link/config"])
async def test_a_delicate_file_is_asked_about_each_time(project: Path, name: str, set_to_approve: bool) -> None:
    (project / ".git").mkdir()
    (project / "link").symlink_to(".git")
    async with talking() as talk:
        talk.client.answer(PERMISSION, chosen("allow_once"))
        session = await talk.open(str(project))
        if set_to_approve:
            change = {"sessionId": session, "configId": "auto_approve", "type": "boolean", "value": True}
            await talk.client.result("session/set_config_option", change)
            assert await questions(talk, session, "/write plain.txt one", "/run true") == [0, 0]
        assert await questions(talk, session, f"/write {name} one", f"/write {name} two") == [1, 1]
        assert list(labels(talk.client.all(PERMISSION)[-1])) == ["allow_once", "reject_once"]


@pytest.mark.anyio
async def test_reject_always_covers_what_its_label_says(project: Path) -> None:
    async with talking() as talk:
        talk.client.answer(PERMISSION, chosen("reject_always"))
        session = await talk.open(str(project))
        assert await questions(talk, session, "/run echo one", "/run echo one", "/run echo two") == [1, 0, 1]
