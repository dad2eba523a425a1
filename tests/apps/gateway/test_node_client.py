"""The main path with the official client for Node, with both kinds of cancel."""

import json
import subprocess
from pathlib import Path

import pytest

from .serving import TOKEN, Server

pytestmark = pytest.mark.usefixtures("require_npm")

NODE = Path(__file__).parent / "node"


def test_the_official_node_client_takes_the_main_path(either: Server) -> None:
    done = subprocess.run(
        ["node", "main_path.js", either.url, TOKEN], cwd=NODE, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == 0, done.stderr
    saw = {line["what"]: line for line in map(json.loads, done.stdout.splitlines())}
    events = saw["stream"]["events"]
    assert events[:2] == ["conversation.chat.created", "conversation.chat.in_progress"]
    assert events.count("conversation.message.delta") == 3
    assert events[-2:] == ["conversation.chat.completed", "done"]
    assert saw["stream"]["status"] == saw["poll"]["status"] == "completed"
    assert saw["poll"]["answer"].endswith("recall")
    assert (saw["submit"]["asked"], saw["submit"]["answer"]) == ("request_permission", "files: yes. ")
    assert (saw["cancel"]["status"], saw["cancel"]["later"]) == ("canceled", "canceled")
    assert saw["late cancel"]["code"] == 4104
    assert (saw["wrong token"]["kind"], saw["wrong token"]["code"]) == ("AuthenticationError", 4100)
