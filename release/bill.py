"""The bill of materials of a distribution: what an installation of it consists of, as CycloneDX."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from release.build import PROJECTS, ROOT, SECONDS

EXTRAS = {"acp-server": "[chat,gateway,postgres,reload,trio]", "acp-conformance": ""}
"""What the lock has of each: the extras with frameworks are left to their users."""


def write_bill(name: str, version: str, dist: Path, file: Path, tools: Path) -> int:
    """Install a distribution from `dist`, with the versions of the lock, and list what is there.

    Returns:
        How many components there are.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        pins = place / "pins.txt"
        lines = re.findall(r"^[a-z0-9._-]+==[^ ;]+", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)
        pins.write_text("\n".join(lines) + "\n")
        python = place / "env" / "bin" / "python"
        _run(sys.executable, "-m", "venv", "--without-pip", str(place / "env"))
        wanted = f"{name}{EXTRAS[name]}=={version}"
        pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
        # By name and not by path, so that no path of this machine stands in the bill.
        _run(*pip, "--constraint", str(pins), "--find-links", str(dist), wanted)
        project = str(PROJECTS[name] / "pyproject.toml")
        bill = [str(tools / "cyclonedx-py"), "environment", "--output-reproducible", "--pyproject", project]
        _run(*bill, "--output-file", str(file), str(python))
    content = json.loads(file.read_text("utf-8"))
    # cyclonedx-py does not know a version that the build backend reads from the package.
    content["metadata"]["component"]["version"] = version
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", "utf-8")
    return len(content["components"])


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, encoding="utf-8", timeout=SECONDS)
