"""The documentation as a whole: pages are in the site, links lead somewhere, public names are documented."""

import ast
import asyncio
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from acp_server.client import AsyncioStream, connect_agent
from acp_server.schema import ContentBlock, from_wire
from acp_server.testing import scripted
from docs.site_hooks import for_site
from tests.agent.processes.driver import environment
from tests.session.editor import END_TURN
from tests.test_public import offered

from .blocks import DOCS, blocks, opened, run

ROOT = DOCS.parent
PAGES = sorted(page for folder in (DOCS, DOCS / "decisions", ROOT, ROOT / ".github") for page in folder.glob("*.md"))
NO_NAMES = {"acp_server.status", "acp_server.client.stderr", "acp_server.mcp.stderr"}
"""A key of `_meta` and loggers, which look like names of the package."""


def without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_navigation_and_the_navigation_has_no_other() -> None:
    listed = re.findall(r"^ +- (\S+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(page.name for page in DOCS.glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    missing: list[str] = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page)):
        if re.match(r"https?://", link):
            continue
        path, _, part = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (part and target.suffix == ".md" and part not in anchors(target)):
            missing.append(link)
    assert not missing


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_each_block_of_code_is_one_on_the_site_too(page: Path) -> None:
    """Where a word stands behind the language, mkdocs makes a paragraph of the block, and code of what follows it."""
    shown = for_site(page.read_text("utf-8"), page.relative_to(DOCS).as_posix())
    assert [each for each in re.findall(r"^```(.*)$", shown, re.MULTILINE) if not re.fullmatch(r"\w*", each)] == []


def test_a_link_that_leaves_the_site_is_text_there() -> None:
    links = "[a](../examples/echo.py) [b](tools.md#x) [c](../limits.md)"
    assert for_site(links, "agents.md") == "a [b](tools.md#x) c"
    assert for_site(links, "decisions/batches.md") == "[a](../examples/echo.py) [b](tools.md#x) [c](../limits.md)"


def imported() -> set[str]:
    """What the code of guides and examples imports of the package, beside the types of the protocol."""
    sources = [*blocks().values(), *(page.read_text("utf-8") for page in (DOCS.parent / "examples").glob("*.py"))]
    nodes = (node for source in sources for node in ast.walk(ast.parse(source)))
    return {
        f"{node.module}.{name.name}"
        for node in nodes
        if isinstance(node, ast.ImportFrom) and re.match(r"acp_server(\.(?!schema)|$)", node.module or "")
        for name in node.names
    }


def test_the_reference_has_every_public_name_and_all_that_the_guides_import() -> None:
    listed = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)
    # The types of the protocol have a page of their own.
    public = {name for name in offered() if not name.startswith("acp_server.schema.")}
    assert sorted(listed) == sorted(public | imported())


def test_each_name_of_the_package_that_a_page_has_is_there() -> None:
    for page in DOCS.rglob("*.md"):
        for module, name in re.findall(r"`(acp_server(?:\.\w+)*)\.(\w+)", page.read_text("utf-8")):
            if f"{module}.{name}" not in NO_NAMES and not hasattr(import_module(module), name):
                import_module(f"{module}.{name}")


@pytest.mark.anyio
async def test_quickstart_quickstart() -> None:
    async with opened("quickstart", "quickstart.md") as (editor, session, _):
        assert await editor.ask(session, "a b c") == END_TURN
        assert editor.said() == ["You said 3 words."]


@pytest.mark.anyio
async def test_migration_echo() -> None:
    async with opened("echo", "migration.md") as (editor, session, _):
        assert await editor.ask(session, "a b c") == END_TURN
        assert editor.said() == ["a b c"]


def test_migration_streams(tmp_path: Path) -> None:
    answer = run("migration.md", "streams")["answer"]
    path = str(tmp_path / "socket")

    async def conversation() -> Any:
        server = await asyncio.start_unix_server(answer, path)
        reader, writer = await asyncio.open_unix_connection(path)
        async with connect_agent(AsyncioStream(reader, writer)) as agent:
            await agent.initialize()
            said = await (await agent.new_session("/")).ask("a b c")
        server.close()
        return said

    assert asyncio.run(conversation()) == "a b c"


def test_migration_types() -> None:
    example = run("migration.md", "types")
    call = example["told"](None, ["a"]).to_wire()
    assert (call["title"], call["_meta"], "kind" in call) == ("Search", {"mine": 1}, False)
    assert call["content"] == [{"type": "content", "content": {"type": "text", "text": "a"}}]
    assert example["text_of"](from_wire(ContentBlock, {"type": "text", "text": "a"})) == "a"
    assert example["text_of"](from_wire(ContentBlock, {"type": "later", "text": "a"})) == ""
    assert (example["cleared"]["title"], "title" in example["left_out"]) == (None, False)
    assert example["read"].current_mode_id == "ask"
    assert example["of_ours"].to_wire()["category"] == "thinking"


@pytest.mark.anyio
async def test_deployment_login() -> None:
    agent = run("deployment.md", "login")["agent"]
    async with scripted(lambda stream: agent.connect(stream).run()) as client:
        answer = await client.result("initialize", {"protocolVersion": 1})
        assert answer["authMethods"] == [{"id": "none", "name": "Go on", "description": "No login is needed."}]
        assert await client.result("authenticate", {"methodId": "none"}) == {}


def test_the_settings_of_pytest_are_those_that_the_guide_names(tmp_path: Path) -> None:
    found = re.search(r"```toml\n(.*?)```", (DOCS / "testing.md").read_text("utf-8"), re.DOTALL)
    assert found
    (tmp_path / "pyproject.toml").write_text(found[1])
    (tmp_path / "test_it.py").write_text(blocks()["testing.md", "agent"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
