"""Handlers of a client that cannot answer are refused when they are made."""

from typing import Any

import pytest

from acp_server.client import Handlers, LocalFiles, LocalTerminals
from acp_server.errors import UsageError


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("permission", "allow", "must be a function, not 'allow'"),
        ("permission", None, "must be a function, not None"),
        ("form", True, "must be a function, not True"),
        ("files", "/project", "must be an object with the methods read_text_file, write_text_file, not '/project'"),
        ("files", LocalFiles, "must be an object with the methods"),
        ("terminals", True, "must be an object with the methods create, output, "),
        ("terminals", LocalTerminals, "must be an object with the methods"),
        ("methods", ["_a"], "must map the names of methods to functions"),
        ("notifications", {"_a": 3}, r"\['_a'\]=...\) must be a function, not 3"),
    ],
)
def test_what_cannot_answer_is_refused_by_name(name: str, given: Any, words: str) -> None:
    with pytest.raises(UsageError, match=rf"Handlers\({name}.*{words}"):
        Handlers(**{name: given})
