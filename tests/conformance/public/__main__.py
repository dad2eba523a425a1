"""`python -m tests.conformance.public AGENT [OPTION]...`: installs the agent, starts a model, and judges the agent.

What stands behind the agent's name goes to `acp-conformance agent`: `--html report.html`, `--case turns`.
Installed agents stay in `build/public`.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from .agents import AGENTS, Public
from .model import app

HERE = Path(__file__).parent
INSTALLED = HERE.parents[2] / "build" / "public"


def installed(agent: Public) -> Path:
    """The folder that the agent is installed in; it is installed if it is not there yet."""
    folder = INSTALLED / f"{agent.package.replace('/', '-')}-{agent.version}"
    if (folder / agent.command[0]).exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    if agent.registry == "npm":
        (folder / "package.json").write_text("{}")
        package = f"{agent.package}@{agent.version}"
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", package], cwd=folder, check=True)
    else:
        subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
        pip = [str(folder / "env" / "bin" / "pip"), "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, f"{agent.package}=={agent.version}"], check=True)
    return folder


@contextmanager
def model() -> Iterator[str]:
    """A model for the length of the block: its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def main(name: str, *options: str) -> int:
    agent = AGENTS[name]
    command = [str(installed(agent) / agent.command[0]), *agent.command[1:]]
    judge = [
        sys.executable,
        "-m",
        "acp_conformance",
        "agent",
        "--keep-home",
        "--profile",
        str(HERE / f"{name}.toml"),
        *options,
    ]
    with model() as url, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as home:
        env = {**os.environ, **agent.settle(Path(home), url)}
        return subprocess.run([*judge, "--", *command], env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
