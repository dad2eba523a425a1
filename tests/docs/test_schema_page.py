"""The page of the protocol's types is what its script makes of them."""

import re
import subprocess
import sys

from acp_server import schema

from .blocks import DOCS

TEXT = (DOCS / "schema.md").read_text("utf-8")


def test_it_is_not_stale() -> None:
    command = [sys.executable, str(DOCS / "schema_page.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "make schema writes it"


def test_each_public_name_is_there_with_what_it_means() -> None:
    sections = dict(re.findall(r"^### (\w+)\n\n((?:.+\n)+)", TEXT, re.MULTILINE))
    public = {name for name in dir(schema) if schema.area_of(name)}
    assert {name for name in public if name not in sections} <= {"METHODS"} | {n for n in public if n.isupper()}


def test_a_type_has_its_fields_and_a_word_its_words() -> None:
    assert "| `path` | `FilePath` | Absolute path of the file. |" in TEXT
    assert "One of `pending`, `in_progress`, `completed`.\n" in TEXT
    assert "`status` | `PlanEntryStatus = 'pending'` | Its status. |" in TEXT
