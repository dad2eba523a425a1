"""The settings with which editors start an agent, as text to be pasted."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from textwrap import indent
from typing import Any, Final


def editor_settings(title: str, command: Sequence[str]) -> str:
    """For Zed, JetBrains IDEs, Neovim with CodeCompanion, Toad and acpx: `command` is started as the agent `title`."""
    program, *arguments = command
    entry: dict[str, Any] = {"command": program, "args": arguments}
    line = shlex.join(command)
    parts = {
        "Zed, in settings.json": _json(title, {"type": "custom", **entry}),
        "JetBrains IDEs, in ~/.jetbrains/acp.json": _json(title, {**entry, "env": {}}),
        "Neovim with CodeCompanion": _LUA.format(_lua(title), ", ".join(map(_lua, command))),
        "Toad": f"toad acp {shlex.quote(line)}",
        "acpx": f'acpx --agent {shlex.quote(line)} "hello"',
    }
    return "\n\n".join(f"{where}:\n\n{indent(text, '    ')}" for where, text in parts.items())


_LUA: Final = """\
require("codecompanion").setup({{
  adapters = {{
    acp = {{
      my_agent = function()
        return require("codecompanion.adapters").extend("gemini_cli", {{
          name = {0},
          commands = {{ default = {{ {1} }} }},
        }})
      end,
    }},
  }},
  interactions = {{ chat = {{ adapter = "my_agent" }} }},
}})"""


def _lua(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json(title: str, entry: dict[str, Any]) -> str:
    return json.dumps({"agent_servers": {title: entry}}, indent=2, ensure_ascii=False)
