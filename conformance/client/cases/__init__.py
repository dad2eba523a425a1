"""The cases for clients, a file a group. Importing this registers all of them, in the order of a report."""

from importlib import import_module
from typing import Final

GROUPS: Final = (
    "initialize",
    "sessions",
    "turns",
    "updates",
    "requests",
    "ids",
    "notifications",
    "framing",
    "bad_input",
    "permission",
    "cancel",
    "cancel_request",
    "files",
    "terminals",
    "closing",
    "whole",
)

for _group in GROUPS:
    import_module(f"{__name__}.{_group}")
