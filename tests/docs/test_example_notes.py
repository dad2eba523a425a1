"""The example of release notes: approval, plan, mode, option, command, store."""

import pytest

from acp_server.client import spawn_agent
from acp_server.schema import AgentMessageChunk, Plan, SessionUpdate
from acp_server.testing import talk
from examples import test_notes
from examples.notes import agent
from tests.agent.processes.driver import environment
from tests.docs.test_example_agents import EXAMPLES
from tests.prefork import Prefork

pytestmark = pytest.mark.anyio
project = test_notes.project
test_notes_are_written_with_approval = test_notes.test_notes_are_written_with_approval
test_the_mode_that_shows_changes_nothing = test_notes.test_the_mode_that_shows_changes_nothing


async def test_without_approval_nothing_runs_and_the_plan_says_so(project: str) -> None:
    seen: list[SessionUpdate] = []
    async with talk(agent, cwd=project, permission="reject", files={}) as session:
        answer = await session.run("HEAD", on_update=seen.append)
        assert answer.stop_reason == "end_turn"
    assert not [update for update in seen if isinstance(update, AgentMessageChunk)]
    plan = [update for update in seen if isinstance(update, Plan)][-1]
    assert [(entry.content, entry.status) for entry in plan.entries[:2]] == [
        ("Read the git log (refused)", "pending"),
        ("Write the notes", "pending"),
    ]


async def test_revisions_that_git_does_not_know_are_said(project: str) -> None:
    async with talk(agent, cwd=project, files={}) as session:
        with pytest.raises(Exception, match="bad revision"):
            await session.ask("/notes nowhere")


async def test_it_keeps_its_sessions_between_two_starts(project: str, forks: Prefork) -> None:
    command = forks.stand_in(["-m", "acp_server", "serve", str(EXAMPLES / "notes.py")])
    async with spawn_agent(command, env=environment()) as first:
        await first.initialize()
        session = await first.new_session(project)
        await session.run("/notes")
    async with spawn_agent(command, env=environment()) as second:
        await second.initialize()
        assert session.id in [info.session_id for info in (await second.list_sessions(cwd=project)).sessions]
