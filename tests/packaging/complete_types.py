"""Says which public names have a type that a type checker cannot know for sure. `make types` runs it.

A class of the gateway or of `http` whose base is of a library without types is left out: no one derives from those.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
_OF_LIBRARIES = {"Type of metaclass unknown", "Type of base class unknown"}


def report(package: Path) -> dict[str, Any]:
    """What pyright says of the types of a package. It looks at packages that are installed, so this one is copied."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(package, Path(folder) / package.name, ignore=shutil.ignore_patterns("__pycache__"))
        command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable]
        command += ["--verifytypes", package.name, "--ignoreexternal", "--outputjson"]
        env = {**os.environ, "PYTHONPATH": folder}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)["typeCompleteness"]


def unknown(report: dict[str, Any]) -> list[str]:
    """The names whose types are not known, with the reasons."""
    wrong: list[str] = []
    for symbol in report["symbols"]:
        reasons = [each["message"].split("\n")[0] for each in symbol["diagnostics"]]
        if symbol["name"].startswith(("acp_server.apps.gateway.", "acp_server.http.")):
            reasons = [reason for reason in reasons if reason not in _OF_LIBRARIES]
        if not symbol["isTypeKnown"] and reasons:
            wrong.append(f"{symbol['name']}: {'; '.join(reasons)}")
    return wrong


def main() -> int:
    """The exit status: 1 if there is such a name."""
    found = report(ROOT / "acp_server")
    wrong = unknown(found)
    if not found["symbols"]:
        wrong = ["pyright has found no package"]
    sys.stderr.write("".join(f"{line}\n" for line in wrong))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
