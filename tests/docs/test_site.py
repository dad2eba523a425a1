"""The documentation as a whole: pages are in the site, links lead somewhere, public names are documented."""

import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import acp_server
import acp_server.client
import acp_server.testing
from acp_server.testing import scripted
from docs.site_hooks import for_site
from tests.agent.processes.driver import environment
from tests.session.editor import END_TURN

from .blocks import DOCS, blocks, opened, run

ROOT = DOCS.parent
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("*/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
PACKAGES = [acp_server, acp_server.client, acp_server.testing]


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


@pytest.mark.skipif(sys.platform == "win32", reason="the page has commands of a POSIX shell")
def test_the_quickstart_works_as_it_is_written(tmp_path: Path) -> None:
    """With the wheel, in an empty folder. Packages that it needs are taken from here, so that no network is needed."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=50)
    venv.create(tmp_path / "venv")
    (site,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    for part in Path(pytest.__file__).parents[1].iterdir():
        if not re.search(r"acp.server|^__", part.name):
            (site / part.name).symlink_to(part)
    # To install it anew takes longer than all the rest.
    pip = tmp_path / "venv" / "bin" / "pip"
    pip.write_text(
        f"#!{tmp_path}/venv/bin/python\nimport sys\nfrom pip._internal.cli.main import main\nsys.exit(main())\n"
    )
    pip.chmod(0o700)
    folder = tmp_path / "empty"
    folder.mkdir()
    page = (DOCS / "quickstart.md").read_text("utf-8")
    env = {
        "PATH": f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PIP_FIND_LINKS": str(tmp_path / "dist"),
        "PIP_NO_INDEX": "1",
    }
    said = ""
    for language, source in re.findall(r"^```(sh|python)[^\n]*\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        if language == "python":
            (folder / "my_agent.py").write_text(source)
            continue
        for command in source.splitlines():
            done = subprocess.run(command, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=50)
            assert done.returncode == 0, (command, done.stdout, done.stderr)
            said += done.stdout
    assert "You said 5 words." in said
    assert "how many words are these" in (folder / "talk.html").read_text("utf-8")
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert f"acp_server-{version}-" in page
