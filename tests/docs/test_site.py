"""The documentation as a whole: pages are in the site, links lead somewhere, public names are documented."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import acp_server
import acp_server.apps.assistant
import acp_server.client
import acp_server.remote
import acp_server.testing
import acp_server.tools.editor
from acp_server.schema import ContentBlock, from_wire
from acp_server.testing import scripted
from docs.site_hooks import for_site
from tests.agent.processes.driver import environment
from tests.session.editor import END_TURN

from .blocks import DOCS, blocks, opened, run

ROOT = DOCS.parent
PAGES = sorted(page for folder in (DOCS, DOCS / "decisions", ROOT, ROOT / ".github") for page in folder.glob("*.md"))
PACKAGES = [acp_server, acp_server.tools.editor, acp_server.apps.assistant, acp_server.client]
PACKAGES += [acp_server.remote, acp_server.testing]


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


def test_every_public_name_is_in_the_reference_and_no_other_is() -> None:
    listed = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text("utf-8"), re.MULTILINE)
    public = [f"{package.__name__}.{name}" for package in PACKAGES for name in package.__all__]
    assert sorted(listed) == sorted(public)


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


def test_migration_types() -> None:
    example = run("migration.md", "types")
    call = example["told"](None, ["a"]).to_wire()
    assert (call["title"], call["_meta"], "kind" in call) == ("Search", {"mine": 1}, False)
    assert call["content"] == [{"type": "content", "content": {"type": "text", "text": "a"}}]
    assert example["text_of"](from_wire(ContentBlock, {"type": "text", "text": "a"})) == "a"
    assert example["text_of"](from_wire(ContentBlock, {"type": "later", "text": "a"})) == ""
    assert (example["cleared"]["title"], "title" in example["left_out"]) == (None, False)


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
