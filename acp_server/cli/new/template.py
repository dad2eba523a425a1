"""The files of a new agent."""

from __future__ import annotations

from string import Template
from typing import Final

import acp_server
from acp_server.cli.new.names import Names


def files(names: Names) -> dict[str, str]:
    """The texts by the names of their files."""
    words = {"name": names.project, "module": names.module, "title": names.title, "acp_server": acp_server.__version__}
    texts = {f"{names.module}.py": _AGENT, f"test_{names.module}.py": _TEST, "pyproject.toml": _PROJECT}
    return {file: Template(text).substitute(words) for file, text in texts.items()}


_AGENT: Final = '''\
"""An agent for editors that speak the Agent Client Protocol."""

from acp_server import Agent, ToolContext, Turn

__version__ = "0.1.0"

agent = Agent("$name", version=__version__, title="$title")


@agent.tool(kind="read", title=lambda path: f"Count the lines of {path}")
async def count_lines(call: ToolContext, path: str) -> str:
    """Count the lines of a file in the user's project."""
    text = await call.client.read_text_file(f"{call.session.cwd}/{path}")
    return f"{path} has {len(text.splitlines())} lines."


@agent.prompt
async def answer(turn: Turn):
    """Answer one prompt: what is yielded appears in the editor at once. A model of yours is called here."""
    if turn.text.startswith("count "):
        result = await turn.run_tool(count_lines, {"path": turn.text.removeprefix("count ")})
        yield result.message or ""
    else:
        yield f"You said {turn.text!r}. Try: count FILE"


@agent.authenticate("none", name="Go on", description="No login is needed.")
async def no_login(call):
    """The ACP registry takes only agents that name a way to log in."""


def main() -> None:
    """Serve one editor over standard input and output."""
    agent.run()


if __name__ == "__main__":
    main()
'''

_TEST: Final = '''\
from contextlib import asynccontextmanager

from acp_server.testing import scripted
from $module import agent


@asynccontextmanager
async def opened():
    """A client with a session, both in memory."""
    async with scripted(lambda stream: agent.connect(stream).run()) as client:
        capabilities = {"fs": {"readTextFile": True}}
        await client.result("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
        session = (await client.result("session/new", {"cwd": "/project", "mcpServers": []}))["sessionId"]

        async def ask(text):
            prompt = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
            assert await client.result("session/prompt", prompt) == {"stopReason": "end_turn"}
            return client.updates(session)[-1]["content"]["text"]

        yield client, ask


async def test_it_repeats_what_the_user_says():
    async with opened() as (_, ask):
        assert await ask("hello") == "You said 'hello'. Try: count FILE"


async def test_it_counts_the_lines_of_a_file_that_the_editor_reads():
    async with opened() as (client, ask):
        client.answer("fs/read_text_file", {"content": "one\\ntwo\\n"})
        assert await ask("count a.txt") == "a.txt has 2 lines."
        assert client.all("fs/read_text_file")[0]["params"]["path"] == "/project/a.txt"
'''

_PROJECT: Final = """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "$name"
description = "An agent for editors that speak the Agent Client Protocol."
dynamic = ["version"]
requires-python = ">=3.11"
dependencies = ["acp-server>=$acp_server"]

[project.scripts]
$name = "$module:main"

[dependency-groups]
dev = ["acp-server[chat]", "pytest"]

[tool.hatch.version]
path = "$module.py"

[tool.hatch.build.targets.wheel]
only-include = ["$module.py"]

[tool.pytest.ini_options]
anyio_mode = "auto"
"""
