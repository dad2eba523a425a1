"""Handlers of a client that cannot answer are refused when they are made."""

from typing import Any

import pytest

from acp_server.client import Handlers, LocalFiles, LocalTerminals
from acp_server.errors import UsageError


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("permission", "allow", "is a function, and not 'allow'"),
        ("permission", None, "is a function, and not None"),
        ("form", True, "is a function, and not True"),
        ("files", "/project", "is an object with the methods read_text_file, write_text_file, and not '/project'"),
        ("files", LocalFiles, "is an object with the methods"),
        ("terminals", True, "is an object with the methods create, output, "),
        ("terminals", LocalTerminals, "is an object with the methods"),
        ("methods", ["_a"], "has functions by the names of methods"),
        ("notifications", {"_a": 3}, r"\['_a'\]=...\) is a function, and not 3"),
    ],
)
def test_what_cannot_answer_is_refused_by_name(name: str, given: Any, words: str) -> None:
    with pytest.raises(UsageError, match=rf"Handlers\({name}.*{words}"):
        Handlers(**{name: given})
