"""SIGHUP: tokens and bots are read again, and no chat notices."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .heard import code, said
from .serving import BUSY, OTHER_TOKEN, TOKEN, TOKENS, Server, ask, client, cozepy, serving, until

AGENT = " ".join(BUSY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reload")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[Server]:
    """A gateway with one bot in a file; its other settings are on the command line."""
    write(folder, "1")
    with serving(folder, "--config", str(folder / "gateway.toml"), agent=[], errors=True) as server:
        yield server


def write(folder: Path, *bots: str, more: str = "") -> None:
    table = "\n".join(f"{bot} = '{AGENT} {bot}'" for bot in bots)
    (folder / "gateway.toml").write_text(f"{more}\n[bots]\n{table}\n")


def reload(server: Server, line: str) -> None:
    """Have it read again, until it has said this once more."""
    before = server.log.read_text().count(line)
    server.process.send_signal(signal.SIGHUP)
    until(lambda: server.log.read_text().count(line) > before)


def test_bots_come_and_go_and_a_chat_of_one_that_goes_runs_to_its_end(server: Server, folder: Path) -> None:
    with client(server) as coze:
        events = iter(coze.chat.stream(**ask("slowly 30")))
        heard = [next(events)]
        server.ear.wait("begin slowly 30")
        (agent,) = server.agents()
        write(folder, "2")
        reload(server, "the tokens and the agents of 1 bots were reloaded")
        with pytest.raises(cozepy.CozeAPIError) as refused:
            coze.chat.create(**ask("echo x"))
        assert code(refused) == 4200
        new = coze.chat.create_and_poll(**{**ask("echo y"), "bot_id": "2"})
        assert new.chat.status == cozepy.ChatStatus.COMPLETED
        heard += list(events)
        assert heard[-1].chat is not None
        assert heard[-1].chat.status == cozepy.ChatStatus.COMPLETED
        assert said(heard)
    # Its agent is ended behind it.
    until(lambda: agent.pid not in [process.pid for process in server.agents()])
    assert len(server.agents()) == 1
    write(folder, "1", "2")
    reload(server, "the tokens and the agents of 2 bots were reloaded")


def test_a_bot_that_stays_keeps_its_agent(server: Server, folder: Path) -> None:
    write(folder, "1", "2")
    reload(server, "reloaded")
    with client(server) as coze:
        assert coze.chat.create_and_poll(**ask("echo x")).chat.status == cozepy.ChatStatus.COMPLETED
        agents = server.agents()
        write(folder, "1", "2", "3")
        reload(server, "reloaded")
        assert coze.chat.create_and_poll(**ask("echo x")).chat.status == cozepy.ChatStatus.COMPLETED
        assert server.agents() == agents


def test_a_token_that_is_taken_out_is_refused_and_a_new_one_is_good(server: Server, folder: Path) -> None:
    write(folder, "1")
    (folder / "tokens").write_text(f"ada {TOKEN}\ncarla pat_of_carla\n")
    reload(server, "reloaded")
    with client(server, "pat_of_carla") as coze:
        assert coze.chat.create_and_poll(**ask("echo x")).chat.status == cozepy.ChatStatus.COMPLETED
    with client(server, OTHER_TOKEN) as coze, pytest.raises(cozepy.CozeAPIError) as refused:
        coze.chat.create(**ask("echo x"))
    assert code(refused) == 4100
    (folder / "tokens").write_text(TOKENS)
    reload(server, "reloaded")


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        ("tokens", "ada\n", "tokens:1: expected a name and a token"),
        ("tokens", "", "contains no token"),
        ("gateway.toml", "[bots", "gateway.toml cannot be read"),
        ("gateway.toml", "[bots]\n1 = 'no-such-program-anywhere'", "there is no program 'no-such-program-anywhere'"),
        ("gateway.toml", "botz = 1", "there is no option 'botz'"),
    ],
)
def test_a_broken_file_is_refused_and_everything_stays_as_it_was(
    server: Server, folder: Path, file: str, text: str, why: str
) -> None:
    write(folder, "1")
    reload(server, "reloaded")
    before = (folder / file).read_text()
    (folder / file).write_text(text)
    reload(server, "the reload failed and changed nothing")
    assert why in server.log.read_text().splitlines()[-1]
    with client(server) as coze:
        assert coze.chat.create_and_poll(**ask("echo x")).chat.status == cozepy.ChatStatus.COMPLETED
    (folder / file).write_text(before)


def test_what_a_reload_does_not_change_is_named(server: Server, folder: Path) -> None:
    write(folder, "1", more="port = 1\n[limits]\nchats = 7\n")
    reload(server, "changes of these options take effect only after a restart: chats")
    write(folder, "1")
    reload(server, "reloaded")
