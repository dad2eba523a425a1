"""The conformance suite as people get it who have nothing of this project: installed alone, from an empty folder."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from tests.packaging.built import SECONDS, install, new_environment

AGENT = Path(__file__).parent / "agent.js"
AT_MOST = 120.0
"""Seconds from an empty folder to a report."""


def judged_from_nothing(wheel: Path, python: str, folder: Path) -> float:
    """Install the suite by pip, with what it needs, and have it judge an agent in JavaScript by one command.

    Returns:
        The seconds from the empty folder to the report.

    Raises:
        AssertionError: The agent, which breaks no rule, is accused; the report is missing; or it took too long.
    """
    place = folder / "empty"
    place.mkdir(parents=True)
    began = time.monotonic()
    programs = new_environment(python, place / "env")
    install(programs, str(wheel))
    shutil.copy(AGENT, place)
    reports = ["--html", "report.html", "--json", "report.json"]
    command = [str(programs / "acp-conformance"), "agent", *reports, "--", "node", "agent.js"]
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONWARNINGS")}
    judged = subprocess.run(command, cwd=place, env=env, capture_output=True, encoding="utf-8", timeout=SECONDS)
    took = time.monotonic() - began
    assert judged.returncode == 0, judged.stdout + judged.stderr
    assert "Conformance of javascript 1 (protocol 1)" in (place / "report.html").read_text("utf-8")
    report = json.loads((place / "report.json").read_text("utf-8"))
    assert not [case["id"] for case in report["cases"] if case["verdict"] in ("fail", "error", "suite-error")]
    assert sum(case["verdict"] == "pass" for case in report["cases"]) > 100
    assert took < AT_MOST, f"{took:.0f} s from an empty folder to a report"
    return took
