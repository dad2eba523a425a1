"""Agents of their own for each name of tokens: processes, folders, and users where the gateway is root."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import psutil
import pytest
from click.testing import CliRunner

from acp_server.apps.cli.gateway import gateway
from acp_server.apps.gateway.bots import Isolation
from acp_server.apps.gateway.limits import Size
from acp_server.apps.gateway.program import Place
from acp_server.errors import UsageError

from .inside import Api, Counting, begin, ended, say
from .serving import BUSY, OTHER_TOKEN, PATIENCE, TOKEN

USERS = range(61_000, 61_003)
by_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can start programs as other users"
)


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users can enter."""
    with tempfile.TemporaryDirectory(prefix="acp-") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.mark.parametrize("name", ["ada", "..", ".", "a/b", "/etc", "%2E", "über"])
def test_each_name_has_a_folder_of_its_own_below_the_one_of_all(tmp_path: Path, name: str) -> None:
    place = Isolation(str(tmp_path)).place(name)
    assert Path(place.cwd).parent == tmp_path
    assert len(os.listdir(tmp_path)) == 1
    assert Isolation(str(tmp_path)).place("other").cwd != place.cwd
    assert os.stat(place.cwd).st_mode & 0o777 == 0o700


def test_a_link_is_no_folder_of_a_name(tmp_path: Path) -> None:
    os.symlink("/etc", tmp_path / "ada")
    with pytest.raises(OSError, match="ada is not a folder"):
        Isolation(str(tmp_path)).place("ada")


@by_root
def test_each_name_has_a_user_that_stays_the_same(tmp_path: Path) -> None:
    names = ["ada", "bob", "carla"]
    first = {name: Isolation(str(tmp_path), USERS).place(name) for name in names}
    assert sorted(place.user for place in first.values() if place.user) == list(USERS)
    assert {name: Isolation(str(tmp_path), USERS).place(name) for name in reversed(names)} == first
    for place in first.values():
        found = os.stat(place.cwd)
        assert (found.st_uid, found.st_mode & 0o777) == (place.user, 0o700)
    with pytest.raises(OSError, match="all users from 61000 to 61002 are in use"):
        Isolation(str(tmp_path), USERS).place("dora")


@by_root
def test_an_agent_that_locks_the_folder_of_all_names_keeps_no_place_from_others(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    found: list[Place] = []
    other = threading.Thread(target=lambda: found.append(Isolation(str(tmp_path), USERS).place("ada")))
    # All that this takes is that the folder can be read.
    locked = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(locked, fcntl.LOCK_EX)
        other.start()
        other.join(PATIENCE)
        assert [place.user for place in found] == [USERS.start]
        assert os.stat(tmp_path / ".lock").st_mode & 0o777 == 0o600
    finally:
        os.close(locked)
        other.join()


def test_users_of_their_own_need_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(UsageError, match="only root"):
        Isolation(str(tmp_path), USERS)


Agents = Callable[[], list[psutil.Process]]


@pytest.fixture
def agents() -> Agents:
    """The agents of a gateway in this process. Children that were there before belong to other tests."""
    before = psutil.Process().children()

    def find() -> list[psutil.Process]:
        there = [child for child in psutil.Process().children() if child not in before]
        return [child for child in there if child.status() != psutil.STATUS_ZOMBIE]

    return find


@pytest.mark.anyio
async def test_the_chats_of_two_names_have_processes_and_folders_of_their_own(
    api: Api, agents: Agents, tmp_path: Path
) -> None:
    place = tmp_path / "agents"
    place.mkdir()
    async with api(agent=BUSY, isolation=Isolation(str(place))) as http:
        conversation, _ = await say(http, "echo x", TOKEN)
        await say(http, "echo y", OTHER_TOKEN)
        assert sorted(psutil.Process(agent.pid).cwd() for agent in agents()) == [str(place / "ada"), str(place / "bob")]
        # A process that dies takes no chat of the other name with it.
        http.headers["Authorization"] = f"Bearer {OTHER_TOKEN}"
        spared = (await begin(http, "slowly 60"))["data"]
        assert (await say(http, "die", TOKEN, conversation_id=conversation))[1] == "last words"
        http.headers["Authorization"] = f"Bearer {OTHER_TOKEN}"
        assert (await ended(http, spared))["status"] == "completed"
        # What was said there is found again, and a session is ended where it is.
        assert "x" in (await say(http, "recall", TOKEN, conversation_id=conversation))[1]
        assert (await http.delete(f"/v1/conversations/{conversation}")).json()["code"] == 0


@by_root
@pytest.mark.anyio
async def test_an_agent_runs_as_the_user_of_its_name_and_cannot_read_what_is_another_one_s(
    api: Api, agents: Agents, shared: Path
) -> None:
    python = shutil.which("python3", path="/usr/bin:/bin")
    if python is None:
        pytest.skip("there is no Python that other users may run")
    agent = Counting(shared)
    os.chmod(shared / "asked", 0o666)
    script = shutil.copy(agent.command()[1], shared / "agent.py")
    os.chmod(script, 0o644)
    place = shared / "agents"
    place.mkdir(mode=0o755)
    async with api(agent=[python, script, str(shared / "asked")], isolation=Isolation(str(place), USERS)) as http:
        assert (await say(http, "x", TOKEN))[1] == "[1] x"
        assert (await say(http, "y", OTHER_TOKEN))[1] == "[1] y"
        there = agents()
        assert sorted(process.uids().real for process in there) == sorted(process.gids().real for process in there)
        assert {process.uids().effective for process in there} == {61_000, 61_001}
        for process in there:
            assert other_groups(process) == []
            home = process.environ()["HOME"]
            found = os.stat(home)
            assert (home, found.st_uid, found.st_mode & 0o077) == (process.cwd(), process.uids().real, 0)


def other_groups(process: psutil.Process) -> list[str]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return next(line.split()[1:] for line in lines if line.startswith("Groups:"))


@pytest.mark.anyio
async def test_processes_of_agents_are_counted_with_why_they_ended(api: Api) -> None:
    async with api(agent=BUSY, agents=Size(0, 2), agent_idle_seconds=0.05) as http:
        assert (await say(http, "die"))[1] == "last words"
        await say(http, "echo x")
        with anyio.fail_after(PATIENCE):
            while 'reason="idle"' not in (text := (await http.get("/metrics")).text):  # noqa: ASYNC110 - it has no event for that
                await anyio.sleep(0.01)
    bot = 'bot="every other"'
    lines = text.splitlines()
    assert f"acp_gateway_agent_starts_total{{{bot}}} 2.0" in lines
    assert f'acp_gateway_agent_ends_total{{{bot},reason="crashed"}} 1.0' in lines
    assert f'acp_gateway_agent_ends_total{{{bot},reason="idle"}} 1.0' in lines
    assert f"acp_gateway_agents{{{bot}}} 0.0" in lines


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--agents", "2:1"], "is not MIN:MAX"),
        (["--agents", "0:0"], "is not MIN:MAX"),
        (["--agents", "4"], "is not MIN:MAX"),
        (["--isolate", "--agent-users", "0-9"], "is not FIRST-LAST"),
        (["--isolate", "--agent-users", "9-8"], "is not FIRST-LAST"),
        (["--agent-users", "20000-20001"], "needs --isolate"),
    ],
)
def test_sizes_and_users_that_mean_nothing_are_refused(options: list[str], why: str) -> None:
    result = CliRunner().invoke(gateway, options)
    assert result.exit_code != 0
    assert why in f"{result.output} {result.exception}"
