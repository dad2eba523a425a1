"""A change that belongs in several places fails here with the name of each: a new update, a new content block, another
oldest Python, another store. CONTRIBUTING.md has the files of further changes.
"""

import re
import tomllib
from pathlib import Path
from typing import Any, get_args

import pytest

from acp_server import schema

ROOT = Path(__file__).resolve().parents[1]

SILENT = {
    "update": {
        # What a client keeps of its session; all other updates are for its program.
        "client/session.py": "user_message_chunk agent_thought_chunk tool_call tool_call_update plan notice"
        " compaction_update compaction_summary_chunk session_message session_message_chunk",
        # What has the same form in version 2.
        "client/v2/updates.py": "available_commands_update session_info_update notice compaction_update"
        " compaction_summary_chunk subagent_update session_message session_message_chunk",
        "session/v2/updates.py": "session_info_update usage_update notice compaction_update compaction_summary_chunk"
        " subagent_update session_message session_message_chunk",
        # What a terminal shows elsewhere, or not at all.
        "apps/cli/screen.py": "agent_message_chunk tool_call_update config_option_update session_info_update"
        " usage_update compaction_update compaction_summary_chunk subagent_update session_message"
        " session_message_chunk",
        # What the chat API has no message for.
        "apps/gateway/reply.py": "user_message_chunk tool_call_update plan available_commands_update"
        " current_mode_update config_option_update session_info_update usage_update notice compaction_update"
        " compaction_summary_chunk subagent_update session_message session_message_chunk",
    },
    "block": {
        # What the chat API has no message for.
        "apps/gateway/messages.py": "resource",
        "apps/gateway/reply.py": "image audio",
        "integrations/messages.py": "",
    },
}
"""The places that tell kinds of updates, or of content blocks, apart, below `acp_server`, and the kinds that each lets
pass as they are or leaves out."""


def _kinds(union: Any, tag: str) -> dict[str, str]:
    """The members of a union by their tags, but for the one that stands for all others."""
    members = [kind for kind in get_args(get_args(union.__value__)[0]) if not kind.__name__.startswith("Unknown")]
    return {kind.model_fields[tag].default: kind.__name__ for kind in members}


@pytest.mark.parametrize(
    ("what", "kinds"),
    [("update", _kinds(schema.SessionUpdate, "session_update")), ("block", _kinds(schema.ContentBlock, "type"))],
    ids=["update", "block"],
)
def test_each_place_knows_every_kind_or_lets_it_pass_on_purpose(what: str, kinds: dict[str, str]) -> None:
    wrong: list[str] = []
    for place, silent in SILENT[what].items():
        text = (ROOT / "acp_server" / place).read_text("utf-8")
        known = {kind for kind, name in kinds.items() if re.search(rf'"{kind}"|\b{name}\b', text)}
        listed = set(silent.split())
        wrong += [f"{place}: what becomes of the {what} {kind!r}?" for kind in sorted(kinds.keys() - known - listed)]
        wrong += [f"{place}: {kind!r} is known, and listed as silent" for kind in sorted(known & listed)]
        wrong += [f"{place}: {kind!r} is listed, and is no {what}" for kind in sorted(listed - kinds.keys())]
    assert not wrong, "\n".join(wrong)


OLDEST = {
    "pyproject.toml": (
        'requires-python = ">={0}"',
        'target-version = "py{1}"',
        'pythonVersion = "{0}"',
        '"Programming Language :: Python :: {0}"',
    ),
    "conformance/pyproject.toml": ('requires-python = ">={0}"', '"Programming Language :: Python :: {0}"'),
    "conformance/one_file/__main__.py": ("needs Python {0} or newer",),
    "Makefile": ("a Python >= {0} with", "no Python >= {0} found", "--python-version {0} "),
    "README.md": ("Python {0} or newer", "Python {0} to "),
    "CONTRIBUTING.md": ("Python {0} or newer", "CPython {0} to "),
    "docs/support.md": ("| CPython {0} |", "| CPython {0} to "),
    "acp_server/apps/cli/new.py": ('requires-python = ">={0}"',),
    "tests/packaging/__main__.py": ('NAMES = ("python{0}",',),
    ".github/workflows/lint.yml": ('python-version: "{0}"',),
    ".github/workflows/test.yml": ('python: ["{0}",',),
    ".github/workflows/nightly.yml": ('python-version: "{0}"',),
}
"""Where the oldest Python is said, and how."""


def test_every_place_has_the_same_oldest_python() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    oldest = project["requires-python"].removeprefix(">=")
    wrong = [
        f"{place}: {form}"
        for place, forms in OLDEST.items()
        for form in (form.format(oldest, oldest.replace(".", "")) for form in forms)
        if form not in (ROOT / place).read_text("utf-8")
    ]
    assert not wrong, "these say another oldest Python:\n" + "\n".join(wrong)


def test_each_store_is_public_and_its_bounds_are_on_the_page() -> None:
    stores = {
        name
        for path in (ROOT / "acp_server" / "store").glob("*.py")
        for name in re.findall(r"^class ([A-Z]\w*Store)\b(?!.*Protocol)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert stores >= {"MemoryStore", "SqliteStore"}
    pages = ("docs/api.md", "docs/sessions.md", "docs/limits.md", "docs/architecture.md")
    missing = [
        f"{page} has nothing of {store}"
        for store in sorted(stores)
        for page in pages
        if store not in (ROOT / page).read_text("utf-8")
    ]
    assert not missing, "\n".join(missing)
