"""`acp-server serve` as an editor starts it."""

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.agent.processes.driver import PLAIN, ROOT, Driven, environment, started

COMMAND = [sys.executable, "-m", "acp_server"]
BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def initialize(agent: Driven) -> str:
    result = agent.call(0, "initialize", protocolVersion=1)
    assert result["protocolVersion"] == 1
    return result["agentInfo"]["name"]


def run(*arguments: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*COMMAND, *arguments], input="", cwd=cwd, env=environment(), capture_output=True, text=True, timeout=30
    )


@BACKENDS
@pytest.mark.parametrize("name", [[], ["serve"]])
def test_without_a_target_the_built_in_agent_is_served(backend: str, name: list[str]) -> None:
    with started([*COMMAND, *name, "--backend", backend]) as agent:
        assert initialize(agent) == "acp-server"
        assert agent.finish() == 0
        assert agent.stderr == ""


def test_the_console_script_is_the_same() -> None:
    script = shutil.which("acp-server", path=str(Path(sys.executable).parent))
    assert script
    with started([script]) as agent:
        assert initialize(agent) == "acp-server"
        assert agent.finish() == 0


@pytest.mark.behaviour("A13")
@BACKENDS
def test_a_target_is_served_and_what_it_prints_when_imported_is_no_protocol(backend: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import os, subprocess\n"
        "print('from python', flush=True)\n"
        "os.write(1, b'from below\\n')\n"
        "subprocess.run(['echo', 'from a child'])\n"
        "from tests.agent.processes.plain import Plain\n"
        "agent = Plain()\n"
    )
    with started([*COMMAND, "serve", "mine:agent", "--backend", backend], cwd=tmp_path) as agent:
        assert agent.call(1, "echo", a=1) == {"a": 1}
        agent.close_input()
        assert agent.rest() == []
        assert agent.exit_code() == 0
        assert agent.stderr.splitlines() == ["from python", "from below", "from a child"]


@pytest.mark.parametrize("target", ["program.py", "program", "program.py:agent"])
def test_a_program_that_runs_its_agent_itself_is_served_as_it_asks_for(target: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import sniffio\nfrom acp_server import Agent\nagent = Agent('mine')\n"
        "@agent.method('_loop')\nasync def loop(call): return sniffio.current_async_library()\n"
        "print('printed')\nagent.run(backend='trio')\nraise AssertionError\n"
    )
    if target == "program.py:agent":
        asked, wanted = ["--backend", "asyncio", "--record", str(tmp_path / "record")], "asyncio"
    else:
        asked, wanted = [], "trio"
    with started([*COMMAND, "serve", target, *asked], cwd=tmp_path) as agent:
        assert initialize(agent) == "mine"
        assert agent.call(1, "_loop") == wanted
        assert agent.finish() == 0
        assert agent.stderr == "printed\n"
    assert (tmp_path / "record").exists() == bool(asked)


def test_a_program_that_serves_in_an_event_loop_of_its_own_is_served_as_it_asks_for(tmp_path: Path) -> None:
    (tmp_path / "taking.py").write_text(
        "import anyio, sniffio\nfrom acp_server import Agent\nfrom acp_server.agent.serve import serve_stdio\n"
        "agent = Agent('mine')\n@agent.method('_loop')\nasync def loop(call): return sniffio.current_async_library()\n"
        "anyio.run(serve_stdio, agent, backend='trio')\n"
    )
    with started([*COMMAND, "serve", "taking.py"], cwd=tmp_path) as agent:
        assert initialize(agent) == "mine"
        assert agent.call(1, "_loop") == "trio"
        assert agent.finish() == 0


@pytest.mark.parametrize("target", ["nosuch:agent", "nosuch.py", "os:path", "os:nosuch", "broken.py"])
def test_a_mistake_is_one_line_on_standard_error_and_exit_code_2(target: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    done = run("serve", target, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    (said,) = done.stderr.splitlines()
    assert said.startswith("acp-server: ")


def test_the_traceback_of_a_failed_import_is_shown_at_log_level_debug(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    done = run("serve", "broken.py", "--log-level", "debug", cwd=tmp_path)
    assert done.returncode == 2
    assert 'broken.py", line 1, in <module>' in done.stderr
    why = "ZeroDivisionError: division by zero (broken.py, line 1)"
    assert done.stderr.splitlines()[-1] == f"acp-server: broken.py failed: {why}"


def test_a_closed_standard_input_is_one_line_and_exit_code_2() -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND], env=environment(), capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "acp-server: standard input is closed, so there is no client to serve\n"


def test_a_recording_is_made_and_shown(tmp_path: Path) -> None:
    with started([*COMMAND, "--record", str(tmp_path / "it")]) as agent:
        initialize(agent)
        assert agent.finish() == 0
    entries = [json.loads(text) for text in (tmp_path / "it").read_text().splitlines()]
    assert [(entry["dir"], entry["msg"]["id"]) for entry in entries] == [("in", 0), ("out", 0)]
    done = run("trace", str(tmp_path / "it"))
    assert done.returncode == 0
    assert "--> #0 initialize" in done.stdout.splitlines()[0]
    assert "<-- #0 initialize" in done.stdout.splitlines()[1]


def test_a_recording_that_cannot_be_made_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = run("--record", str(tmp_path / "no" / "such"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"acp-server: cannot record to {tmp_path}/no/such: No such file or directory\n"


def test_a_backend_that_is_not_installed_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'trio' else find(name, *more)\n"
    )
    env = environment(PYTHONPATH=f"{tmp_path}:{ROOT}")
    done = subprocess.run([*COMMAND, "--backend", "trio"], env=env, capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "acp-server: trio is not installed: pip install 'acp-server[trio]'\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_it_with_the_code_that_a_shell_expects(number: int) -> None:
    with started(COMMAND) as agent:
        initialize(agent)
        agent.signal(number)
        assert agent.rest() == []
        assert agent.exit_code() == 128 + number


@pytest.mark.parametrize("reload", [[], ["serve", "--reload", "tests.apps.cli.talker:agent"]], ids=["once", "reload"])
def test_a_user_who_starts_it_at_a_terminal_is_told_what_it_waits_for(reload: list[str]) -> None:
    ours, theirs = pty.openpty()
    with started([*COMMAND, *reload], stdin=theirs) as agent:
        agent.wait_for_stderr("acp-server chat")
        os.write(ours, b"\x04")
        assert agent.exit_code() == 0
    os.close(ours)
    os.close(theirs)


# The log


def failing(folder: Path) -> str:
    (folder / "failing.py").write_text(
        "import logging\n"
        "from acp_server.peer.connection import Connection\n"
        "from acp_server.peer.call import Route, Routes\n"
        "async def fail(call):\n"
        "    logging.getLogger('mine').info('told')\n"
        "    raise ValueError('secret' * call.params.get('size', 1))\n"
        "class Agent:\n"
        "    def connect(self, stream, limits=None):\n"
        "        return Connection(stream, Routes({'fail': Route(fail)}), limits)\n"
        "    def interrupt(self, connection):\n"
        "        return False\n"
        "agent = Agent()\n"
    )
    return str(folder / "failing.py")


def test_the_log_goes_to_standard_error_from_warnings_on(tmp_path: Path) -> None:
    with started([*COMMAND, "serve", failing(tmp_path)]) as agent:
        agent.request(1, "fail")
        assert agent.next()["error"] == {"code": -32603, "message": "Internal error"}
        assert agent.finish() == 0
        assert "ERROR acp_server.peer: fail failed\n    Traceback" in agent.stderr
        assert "told" not in agent.stderr


def test_the_log_can_go_to_a_file_at_any_level_and_errors_are_still_on_standard_error(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with started([*COMMAND, "serve", failing(tmp_path), "--log-file", str(log), "--log-level", "INFO"]) as agent:
        agent.request(1, "fail")
        agent.next()
        assert agent.finish() == 0
        assert "INFO mine: told" in log.read_text()
        assert "ERROR acp_server.peer: fail failed\n    Traceback" in log.read_text()
        assert "told" not in agent.stderr
        assert "fail failed" in agent.stderr


@pytest.mark.parametrize("before", [None, 0o640])
def test_a_new_log_file_is_for_its_owner_only_and_an_old_one_is_continued_and_its_rights_are_said(
    before: int | None, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    if before is not None:
        log.write_text("earlier\n")
        log.chmod(before)
    # With a umask that takes nothing away.
    with started([*COMMAND, "serve", failing(tmp_path), "--log-file", str(log)], umask=0) as agent:
        agent.request(1, "fail")
        agent.next()
        assert agent.finish() == 0
    assert log.stat().st_mode & 0o777 == (0o600 if before is None else before)
    assert log.read_text().startswith("earlier\n") == (before is not None)
    assert "fail failed" in log.read_text()
    warning = f"WARNING acp_server.apps.cli: other users may be able to read the log {log}: its permissions are 640\n"
    warned = warning in log.read_text()
    assert warned == (before is not None)


def test_a_log_file_that_cannot_be_written_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    done = run("--log-file", str(tmp_path / "no" / "such"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"acp-server: cannot log to {tmp_path}/no/such: No such file or directory\n"


@BACKENDS
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nonsense"], "there is no module 'nonsense', here or among the installed packages"),
        (["--log-file", "no/such"], "cannot log to no/such: No such file or directory"),
        (["--record", "no/such"], "cannot record to no/such: No such file or directory"),
    ],
)
def test_why_nothing_is_served_is_said_even_where_output_and_errors_are_one_pipe(
    backend: str, arguments: list[str], complaint: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [*COMMAND, "serve", *arguments, "--backend", backend],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=tmp_path,
        env=environment(),
        text=True,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (2, f"acp-server: {complaint}\n")


def test_a_client_that_never_reads_the_log_is_served_all_the_same(tmp_path: Path) -> None:
    source, sink = os.pipe()
    with started([*COMMAND, "serve", failing(tmp_path)], stderr=sink) as agent:
        os.close(sink)
        for id in range(100):
            agent.request(id, "fail", size=20_000)
            assert agent.next()["error"]["code"] == -32603
        reader = threading.Thread(target=lambda: seen.extend(iter(lambda: os.read(source, 1 << 20), b"")))
        seen: list[bytes] = []
        reader.start()
        agent.request(200, "fail")
        agent.next()
        assert agent.finish() == 0
        reader.join(20)
    os.close(source)
    assert b"secret" in b"".join(seen)
    assert b" log entries were lost: they could not be written)\n" in b"".join(seen)


def test_a_client_that_closes_the_log_is_served_all_the_same(tmp_path: Path) -> None:
    source, sink = os.pipe()
    with started([*COMMAND, "serve", failing(tmp_path)], stderr=sink) as agent:
        os.close(sink)
        os.close(source)
        for id in range(3):
            agent.request(id, "fail")
            assert agent.next()["error"]["code"] == -32603
        assert agent.finish() == 0


def test_the_plain_agent_is_served_by_its_path() -> None:
    with started([*COMMAND, "serve", f"{PLAIN}:Plain"]) as agent:
        assert agent.call(1, "echo") == {}
        assert agent.finish() == 0


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("{folder}/mine.py", None),
        ("mine.py", "cannot find mine.py, because the current folder has been removed"),
        ("mine:agent", "cannot find mine, because the current folder has been removed"),
    ],
)
def test_a_file_is_served_from_a_folder_that_has_been_removed(target: str, said: str | None, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from tests.agent.processes.plain import Plain\nagent = Plain()\n")
    removed = tmp_path / "removed"
    removed.mkdir()
    script = f"rmdir {removed} && exec {sys.executable} -m acp_server serve {target.format(folder=tmp_path)}"
    ended = subprocess.run(
        ["sh", "-c", script],
        input="",
        cwd=removed,
        env={**environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (ended.returncode, ended.stderr) == ((0, "") if said is None else (2, f"acp-server: {said}\n"))


def test_a_command_that_needs_a_folder_says_that_it_has_been_removed(tmp_path: Path) -> None:
    removed = tmp_path / "removed"
    removed.mkdir()
    script = f"rmdir {removed} && exec {sys.executable} -m acp_server chat -p hi"
    ended = subprocess.run(
        ["sh", "-c", script],
        stdin=subprocess.DEVNULL,
        cwd=removed,
        env={**environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ended.returncode == 2
    assert ended.stderr == "acp-server: the folder that this was started in has been removed\n"


@BACKENDS
def test_children_have_their_own_exit_status_whatever_the_parent_ignores_or_blocks(
    backend: str, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "import signal, subprocess\n"
        "from acp_server import Agent, Call\n"
        "agent = Agent('mine')\n"
        "@agent.prompt\n"
        "async def prompt(turn): ...\n"
        "@agent.method('_child')\n"
        "def child(call: Call) -> list[int]:\n"
        "    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())\n"
        "    return [subprocess.run(['sh', '-c', 'exit 7']).returncode, len(blocked)]\n"
    )
    parent = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGCHLD])\n"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
    )
    command = [sys.executable, "-c", parent, *COMMAND[1:], "serve", str(tmp_path / "mine.py"), "--backend", backend]
    with started(command) as agent:
        assert agent.call(0, "_child") == [7, 0]
        agent.process.send_signal(signal.SIGTERM)
        assert agent.process.wait(10) == 128 + signal.SIGTERM
