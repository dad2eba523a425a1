"""`acp-server new` makes a folder with an agent that works, a test that passes, and the settings for editors.

The parts of this module after the command: the agent's names, the settings of editors as text to be pasted, the source
of the installed package, and the files of the folder.
"""

from __future__ import annotations

import json
import keyword
import os
import re
import shlex
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from string import Template
from textwrap import indent
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

import click

import acp_server
from acp_server.apps.cli.screen import clean, use_standard_output
from acp_server.errors import UsageError


@click.command()
@click.argument("name")
def new(name: str) -> int:
    """Make the folder NAME with an agent, a test of it, a pyproject.toml, a README and a .gitignore.

    NAME may be a path, whose last part names the agent. Files that exist are never overwritten. The settings that
    make the agent appear in editors are printed.
    """
    use_standard_output()
    folder = Path(name)
    names = Names.of(Path(os.path.abspath(folder)).name)
    _write(folder, names)
    click.echo(clean(_said(folder, names)))
    return 0


def _write(folder: Path, names: Names) -> None:
    """Write the files into a folder that is new, or that has hidden files only, as after `git init`. Raises
    UsageError."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not folder.is_dir() or any(not entry.name.startswith(".") for entry in folder.iterdir()):
            raise UsageError(f"the folder {folder} exists already and was not overwritten") from None
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror}") from None
    for file, text in files(names).items():
        try:
            with (folder / file).open("x", encoding="utf-8", newline="\n") as stream:
                stream.write(text)
        except OSError as error:
            raise UsageError(f"{folder / file} cannot be written: {error.strerror}") from None


def _said(folder: Path, names: Names) -> str:
    agent = folder.absolute() / f"{names.module}.py"
    return f"""\
{folder} has an agent now: {", ".join(files(names))}.

Talk to it, and run its test:

    cd {shlex.quote(str(folder))}
    acp-server chat {agent.name}
    uv run pytest

Without uv: `python -m pip install pytest`, then `python -m pytest`.

`acp-server doctor {agent.name}` says what would go wrong in an editor. These settings bring it there:

{editor_settings(names, [*_command(), "serve", str(agent)])}"""


def _command() -> list[str]:
    """Return the command that starts this program again, from any folder."""
    script = shutil.which("acp-server", path=os.path.dirname(sys.executable))
    return [script] if script else [sys.executable, "-m", "acp_server"]


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one agent."""

    title: str
    """The title for users."""
    project: str
    """The name of the agent's distribution, its command and its entry in the ACP registry: lowercase letters, digits
    and hyphens."""
    module: str
    """The name of the Python module."""

    @classmethod
    def of(cls, name: str) -> Names:
        """Return the names for `name`. Raises UsageError for a name without a letter from a to z."""
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        words = re.findall(r"[a-z0-9]+", plain.lower())
        if not re.search(r"[a-z]", "".join(words)):
            raise UsageError(f"{name!r} has no letter from a to z, which the agent's module and command need")
        if words[0][0].isdigit():
            words.insert(0, "agent")
        if _is_taken("_".join(words)):
            words.append("agent")
        spoken = re.findall(r"[^\W_]+", name)
        title = " ".join(word if word.isupper() else word.capitalize() for word in spoken)
        return cls(title, "-".join(words), "_".join(words))


def _is_taken(module: str) -> bool:
    """Whether a module of this name would hide another module, or could not be imported."""
    if keyword.iskeyword(module) or module in sys.stdlib_module_names:
        return True
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return True
    # A namespace package without a file is a folder that stands here by chance.
    return spec is not None and spec.origin is not None


def editor_settings(names: Names, command: Sequence[str]) -> str:
    """Return settings for Zed, JetBrains IDEs, VS Code, Neovim with CodeCompanion, Toad and acpx. The settings start
    `command` as the agent `names`. The settings for CodeCompanion extend an adapter that has no method to log in."""
    title = names.title
    program, *arguments = command
    entry: dict[str, Any] = {"command": program, "args": arguments}
    line = shlex.join(command)
    in_vs_code = json.dumps({title: entry}, ensure_ascii=False)
    parts = {
        "Zed, in settings.json": _json(title, {"type": "custom", **entry}),
        "JetBrains IDEs, in ~/.jetbrains/acp.json": _json(title, {**entry, "env": {}}),
        "VS Code with ACP Client (formulahendry.acp-client), in settings.json": f'"acp.agents": {in_vs_code}',
        "Neovim with CodeCompanion": _LUA.format(names.module, _lua(title), ", ".join(map(_lua, command))),
        "Toad": f"toad acp {shlex.quote(line)}",
        "acpx": f'acpx --agent {shlex.quote(line)} exec "hello"',
    }
    return "\n\n".join(f"{where}:\n\n{indent(text, '    ')}" for where, text in parts.items())


_LUA: Final = """\
require("codecompanion").setup({{
  adapters = {{
    acp = {{
      {0} = function()
        return require("codecompanion.adapters").extend("goose", {{
          name = "{0}",
          formatted_name = {1},
          commands = {{ default = {{ {2} }} }},
        }})
      end,
    }},
  }},
  interactions = {{ chat = {{ adapter = "{0}" }} }},
}})"""


def _lua(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json(title: str, entry: dict[str, Any]) -> str:
    return json.dumps({"agent_servers": {title: entry}}, indent=2, ensure_ascii=False)


def source_of(direct_url: str | None) -> str:
    """Return the source from which uv installs acp-server again, as a line of `[tool.uv.sources]`. It is empty for the
    package index.

    `direct_url` is the content of direct_url.json, which installers write beside a distribution that was not on an
    index: https://packaging.python.org/en/latest/specifications/direct-url/
    """
    if direct_url is None:
        return ""
    found: dict[str, Any] = json.loads(direct_url)
    url = urlsplit(str(found["url"]))
    if "vcs_info" in found:
        where = {found["vcs_info"]["vcs"]: found["url"], "rev": found["vcs_info"]["commit_id"]}
    elif url.scheme == "file":
        where = {"path": url2pathname(url.path)}
    else:
        where = {"url": found["url"]}
    pairs = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in where.items()]
    if found.get("dir_info", {}).get("editable"):
        pairs.append("editable = true")
    return f"acp-server = {{ {', '.join(pairs)} }}"


def _direct_url() -> str | None:
    try:
        return distribution("acp-server").read_text("direct_url.json")
    except PackageNotFoundError:  # a source tree on the path
        return None


def files(names: Names) -> dict[str, str]:
    """Return the text of each file, by its name."""
    source = source_of(_direct_url())
    words = {
        "name": names.project,
        "module": names.module,
        "title": names.title,
        "acp_server": acp_server.__version__,
        "sources": f"{_SOURCES}{source}\n" if source else "",
    }
    texts = {
        f"{names.module}.py": _AGENT,
        f"test_{names.module}.py": _TEST,
        "pyproject.toml": _PROJECT,
        "README.md": _README,
        ".gitignore": _IGNORED,
    }
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
    """Answer one prompt: what is yielded appears in the editor at once. Call your model here."""
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

_TEST: Final = """\
from acp_server.testing import talk
from $module import agent


async def test_it_repeats_what_the_user_says():
    async with talk(agent) as session:
        assert await session.ask("hello") == "You said 'hello'. Try: count FILE"


async def test_it_counts_the_lines_of_a_file_that_the_editor_reads():
    async with talk(agent, files={"a.txt": "one\\ntwo\\n"}) as session:
        assert await session.ask("count a.txt") == "a.txt has 2 lines."
"""

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
$sources"""

_SOURCES: Final = """
# Where acp-server was installed from when this file was written. Remove it once that is the package index.
[tool.uv.sources]
"""

_README: Final = """\
# $title

An agent for editors that speak the [Agent Client Protocol](https://agentclientprotocol.com).

```sh
acp-server chat $module.py     # talk to it
uv run pytest                  # run its tests
acp-server doctor $module.py   # what would go wrong in an editor
```

An editor starts it with `acp-server serve $module.py`, or with `$name` where this project is installed.
"""

_IGNORED: Final = """\
.venv/
__pycache__/
.pytest_cache/
dist/
"""
