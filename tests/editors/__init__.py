"""Real editors drive our agents, at a terminal that is looked at: `make editors`. See docs/editors.md."""

from .acpx import Acpx
from .agent_shell import AgentShell
from .agentic import Agentic
from .codecompanion import CodeCompanion
from .editor import Editor
from .toad import Toad

EDITORS: dict[str, type[Editor]] = {
    "codecompanion": CodeCompanion,
    "agentic": Agentic,
    "agent-shell": AgentShell,
    "toad": Toad,
    "acpx": Acpx,
}
