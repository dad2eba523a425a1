"""Tests of the release notes, without an editor: `python -m pytest examples/test_notes.py`."""

import subprocess

import pytest

from acp_server.testing import talk
from examples.notes import agent

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path):
    for command in ("init -q", "commit -q --allow-empty -m First", "commit -q --allow-empty -m Second"):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *command.split()], cwd=tmp_path, check=True)
    return str(tmp_path)


async def test_notes_are_written_with_approval(project):
    files = {"NOTES.md": "old\n"}
    async with talk(agent, cwd=project, files=files) as session:
        assert "- Second\n- First\n" in await session.ask("/notes HEAD")
    assert files == {"NOTES.md": "## Notes\n\n- Second\n- First\n\nold\n"}


async def test_the_mode_that_shows_changes_nothing(project):
    async with talk(agent, cwd=project, files={}) as session:
        await session.set_mode("show")
        assert await session.ask("HEAD~1..HEAD") == "## Notes\n\n- Second\n"
