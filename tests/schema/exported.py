"""The JSON Schemas of our types, as they are committed: `test_export` holds that they are what the types say.

To make them takes half a second, and every process that runs tests would do so while it collects them.
"""

import json
from pathlib import Path
from typing import Any

COMMITTED = Path(__file__).parents[2] / "protocol_schemas"


def document(version: int = 1, name: str = "schema.unstable.json") -> dict[str, Any]:
    """The schema of one version of the protocol, with what is unstable unless `name` is that of the stable one."""
    return json.loads((COMMITTED / f"v{version}" / name).read_text("utf-8"))


def definitions(version: int = 1, name: str = "schema.unstable.json") -> dict[str, Any]:
    """The schema of each type, by name."""
    return document(version, name)["$defs"]
