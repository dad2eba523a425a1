"""What the log of a program that serves looks like, and that no handler of it waits."""

import logging
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acp_server.agent.log import LogHandler, LogStream, UnblockedLog
from tests.agent.processes.driver import started

FORGED = "\n2026-01-01 00:00:00,000 ERROR acp_server.peer: forged\r\n\x1b[2Jforged\u202e"


class Log:
    """A logger that writes into a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.fd = os.open(file, os.O_WRONLY | os.O_CREAT)
        self.stream = LogStream(self.fd)
        # Without a place among the others, at which pytest would add handlers of its own.
        self.logger = logging.Logger("name", logging.INFO)  # noqa: LOG001
        self.logger.addHandler(LogHandler(self.stream))

    def read(self) -> str:
        assert self.stream.drain(20)
        return self._file.read_text()


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    it = Log(tmp_path / "log")
    yield it
    it.stream.close()
    os.close(it.fd)


def test_an_entry_is_one_line_whatever_a_peer_has_said(log: Log) -> None:
    log.logger.info("the peer said %s", FORGED)
    (said,) = log.read().splitlines()
    assert re.fullmatch(
        r"[-\d]{10} [\d:]{8},\d{3} INFO name: the peer said "
        r"\\n2026-01-01 00:00:00,000 ERROR acp_server.peer: forged\\r\\n\\x1b\[2Jforged\\u202e",
        said,
    )


def test_what_a_peer_said_in_an_exception_is_indented(log: Log) -> None:
    try:
        try:
            raise ValueError(FORGED)
        except ValueError:
            raise ExceptionGroup(FORGED, [KeyError(FORGED), OSError(FORGED)]) from None
    except ExceptionGroup:
        log.logger.exception("it failed", stack_info=True)
    first, *others = log.read().splitlines()
    assert first.endswith("ERROR name: it failed")
    assert sum("forged" in text for text in others) > 3
    assert all(text.startswith("    ") for text in others)
    assert not {"\x1b", "\r", "\u202e"} & set(log.read())


def test_a_name_or_a_level_forges_nothing_either(log: Log) -> None:
    log.logger.handle(logging.makeLogRecord({"name": FORGED, "levelname": FORGED, "levelno": logging.INFO, "msg": "m"}))
    assert len(log.read().splitlines()) == 1


@pytest.mark.parametrize("functions", [1, 2, 8])
def test_a_recursion_is_folded(functions: int, log: Log) -> None:
    names = [f"f{number}" for number in range(functions)]
    code = "".join(
        f"def {name}():\n    return {other}()\n" for name, other in zip(names, [*names[1:], names[0]], strict=True)
    )
    scope: dict[str, object] = {}
    exec(code, scope)
    try:
        exec("f0()", scope)
    except RecursionError:
        log.logger.exception("it failed")
    said = log.read()
    assert f"      [{'the frame above comes' if functions == 1 else f'the {functions} frames above come'} " in said
    assert all(said.count(f"in {name}\n") <= 2 for name in names)
    assert said.endswith("    RecursionError: maximum recursion depth exceeded\n")
    assert len(said) < 4000


def test_an_entry_that_cannot_be_formatted_is_said_without_a_traceback(log: Log) -> None:
    log.logger.info("%d", FORGED)
    (said,) = log.read().splitlines()
    assert said.startswith("ERROR name: the log entry of ")
    assert "test_log.py" in said
    assert "TypeError" in said


def test_handlers_for_standard_error_do_not_wait_until_they_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = logging.StreamHandler(sys.stderr), logging.StreamHandler(open(os.devnull, "w"))  # noqa: SIM115
    logger = logging.getLogger("tests.log of its own")
    before = logging.lastResort
    monkeypatch.setattr(logger, "handlers", [ours, theirs])
    file = theirs.stream
    with UnblockedLog():
        assert isinstance(ours.stream, LogStream)
        assert theirs.stream is file
        assert isinstance(logging.lastResort, LogHandler)
    assert ours.stream is sys.stderr
    assert logging.lastResort is before
    file.close()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("set_up", ["", "logging.basicConfig()"], ids=["no log set up", "basicConfig"])
def test_a_client_that_never_reads_standard_error_gets_its_answers_and_the_end(
    backend: str, set_up: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(
        f"import logging\nfrom acp_server import Agent\nagent = Agent('mine')\n{set_up}\n"
        "@agent.method('_fail')\nasync def fail(call): raise ValueError('x' * 100_000)\n"
        f"raise SystemExit(agent.run(backend='{backend}'))\n"
    )
    source, sink = os.pipe()
    try:
        with started([sys.executable, "program.py"], stderr=sink, cwd=tmp_path) as agent:
            for id in range(100):
                agent.request(id, "_fail")
                assert agent.next()["error"]["code"] == -32603
            assert agent.finish() == 0
            os.close(sink)
            seen = os.read(source, 1 << 20)
    finally:
        os.close(source)
    assert b"_fail failed" in seen
