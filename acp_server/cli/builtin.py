"""How to start the built-in agent as a process of its own."""

from __future__ import annotations

import sys
from typing import Final

COMMAND: Final = (sys.executable, "-m", "acp_server", "serve")
