"""What a person sees: progress, and the summary."""

import io
import os
import re

import pytest

from acp_conformance.core.members import published
from acp_conformance.core.result import Run, Verdict
from acp_conformance.report.terminal import Terminal
from acp_conformance.report.words import columns
from tests.conformance.report.runs import HOSTILE, every_verdict, hostile, result, run

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Screen(io.TextIOWrapper):
    """A stream that is a terminal, and keeps what is written to it."""

    def __init__(self, encoding: str = "utf-8", terminal: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding=encoding, newline="\n")
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal

    @property
    def written(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(self.encoding)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def show(run: Run, screen: Screen, width: int | None = 80) -> str:
    terminal = Terminal(screen, width)
    terminal.begin(len(run.cases))
    for case in run.cases:
        terminal.started(case.id)
        terminal.finished(case)
    terminal.end(run)
    return screen.written


def test_elsewhere_progress_is_a_plain_line_for_each_problem() -> None:
    lines = show(every_verdict(), Screen(terminal=False)).splitlines()
    assert lines[:2] == [
        '2/8  fail    ids/a-fail: the request "7" was answered with 7',
        "3/8  warn    turns/a-warning: no title",
    ]


def test_elsewhere_a_reason_for_which_no_case_can_run_is_told_once() -> None:
    screen = Screen(terminal=False)
    terminal = Terminal(screen)
    terminal.begin(4)
    for case, reason in enumerate(("no such command", "no such command", "no room", "no such command")):
        terminal.finished(result(f"a/{case}", Verdict.ERROR, reason))
    assert screen.written == "1/4  error   a/0: no such command\n3/4  error   a/2: no room\n"


def test_each_plain_line_is_out_before_the_next_case_begins() -> None:
    screen = Screen(terminal=False)
    terminal = Terminal(screen)
    terminal.begin(2)
    terminal.finished(result("ids/one", Verdict.WARN, "odd"))
    assert isinstance(screen.buffer, io.BytesIO)
    assert screen.buffer.getvalue() == b"1/2  warn    ids/one: odd\n"


def test_on_a_terminal_progress_is_one_line_that_fits_and_is_gone_at_the_end() -> None:
    written = show(every_verdict(), Screen(), 30)
    progress, summary = written.rsplit("\r\x1b[K", 1)
    assert "\n" not in progress
    assert summary.startswith("\n")
    states = progress.split("\r\x1b[K")[1:]
    assert len(states) == 2 * 8
    assert states[0] == "0/8  ids/a-pass"
    assert states[4] == "2/8  1 failed  turns/a-warning"[:26] + "..."
    assert all(columns(state) < 30 for state in states)


def test_the_line_names_the_cases_that_are_running() -> None:
    screen = Screen()
    terminal = Terminal(screen, 80)
    terminal.begin(3)
    for id in ("a/1", "a/2", "a/3"):
        terminal.started(id)
    terminal.finished(result("a/2", Verdict.ERROR, "boom"))
    assert screen.written.rsplit("\x1b[K", 1)[1] == "[######..............]  1/3  1 could not run  a/1, a/3"


def judged_by_the_clock(screen: Screen, times: list[float]) -> str:
    terminal = Terminal(screen, 80, now=lambda: times.pop(0))
    terminal.begin(4)
    terminal.expect(100)
    terminal.started("a/1")
    terminal.finished(result("a/1"))
    return screen.written


def test_on_a_terminal_a_run_begins_with_an_estimate_and_goes_on_with_a_bar() -> None:
    lines = COLOUR.sub("", judged_by_the_clock(Screen(), [0, 50])).replace("\n", "\r\x1b[K").split("\r\x1b[K")
    assert "4 cases, about 2 min" in lines
    assert "[....................]  0/4  2 min left  a/1" in lines
    # A quarter took 50 s where 25 were expected: the rest takes longer, too.
    assert lines[-1] == "[#####...............]  1/4  2 min left"


def test_elsewhere_there_is_neither_bar_nor_estimate() -> None:
    assert judged_by_the_clock(Screen(terminal=False), [0, 50]) == ""


def test_there_are_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[31m" in show(every_verdict(), Screen())
    assert "\x1b" not in show(every_verdict(), Screen(terminal=False))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not COLOUR.search(show(every_verdict(), Screen()))
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert "\x1b" not in show(every_verdict(), Screen())


def test_the_summary_says_which_rule_is_broken_where_it_stands_and_how() -> None:
    summary = show(every_verdict(), Screen(terminal=False), 100)
    assert (
        "\nFailed: a MUST is broken\n"
        "  ids/a-fail  The rule of a-fail is kept.\n"
        "      MUST, ACP v1, Prompt Turn, Cancellation\n"
        '      the request "7" was answered with 7\n'
    ) in summary
    assert "\nConformance of sample 1.2 (protocol 1)\nagent --flag 'two words'\n" in summary
    assert summary.endswith(
        "\n4 of the 7 cases that apply were tried\n"
        "1 could not run, 1 failed, 1 warned, 1 choice, 2 skipped, 1 not applicable, 1 passed in 12.3 s\n"
    )


def test_the_summary_counts_each_group() -> None:
    summary = show(every_verdict(), Screen(terminal=False))
    assert "\nGroups\n  ids        1 failed, 1 passed\n  turns      1 warned, 1 choice, 2 skipped\n" in summary


def test_a_reason_for_skipping_stands_once_with_all_its_cases() -> None:
    summary = show(every_verdict(), Screen(terminal=False))
    assert (
        "\nSkipped\n  the profile has no situation hang\n      turns/a-skip, turns/another-skip\n"
        "\nNot applicable\n  session/load is not announced\n      terminals/not-there\n"
    ) in summary


def test_a_run_of_nothing_at_all_is_shown() -> None:
    assert "nothing was run" in show(run(subject=None), Screen())


@pytest.mark.parametrize("width", [20, 40, 79, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for shown in (every_verdict(), hostile()):
        summary = COLOUR.sub("", show(shown, Screen(), width).rsplit("\r\x1b[K", 1)[1])
        assert [line for line in summary.splitlines() if columns(line) > width] == []


@pytest.mark.parametrize("terminal", [True, False])
def test_a_subject_cannot_steer_the_terminal(terminal: bool) -> None:
    written = COLOUR.sub("", show(hostile(), Screen(terminal=terminal))).replace("\r\x1b[K", "")
    assert not set(written) & {*map(chr, range(10)), *map(chr, range(11, 32)), "\x7f", "\x9b", "\u202e", "\u2028"}
    assert "\\x1b[2J" in written


def test_what_the_stream_cannot_encode_is_written_as_escapes() -> None:
    written = show(run(result("a/b", Verdict.FAIL, HOSTILE)), Screen("ascii", terminal=False))
    assert "\\u6f22\\u5b57" in written


def test_the_width_is_the_terminals_own() -> None:
    controller, terminal = os.openpty()
    try:
        import fcntl
        import struct
        import termios

        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 33, 0, 0))
        with os.fdopen(terminal, "w") as stream:
            shown = Terminal(stream)
            shown.begin(1)
            shown.started("group/" + "x" * 100)
            assert os.read(controller, 1000).decode() == "\r\x1b[K" + ("0/1  group/" + "x" * 18) + "..."
    finally:
        os.close(controller)


def test_a_subject_that_does_not_start_is_told_in_a_few_lines_with_its_own_last_words() -> None:
    why = "it wrote no message: the process ended with status 2"
    words = "".join(f"line {n}\n" for n in range(9)) + "can't open file \x1b[2J\n"
    cases = [result(f"ids/{n}", Verdict.ERROR, why, stderr=words) for n in range(300)]
    said = show(run(*cases, subject=None), Screen(terminal=False))
    summary = said[said.index("\n\n") + 1 :]
    assert summary == (
        f"\nConformance of agent\nagent --flag 'two words'\nschema: {published()}\n"
        f"\nCould not run\n  {why}\n"
        "      | line 5\n      | line 6\n      | line 7\n      | line 8\n      | can't open file \\x1b[2J\n"
        "      every case\n"
        "\n0 of the 300 cases that apply were tried\n300 could not run in 12.3 s\n"
    )


def test_what_several_subjects_wrote_to_standard_error_is_not_mixed() -> None:
    cases = [result(f"ids/{n}", Verdict.ERROR, "boom", stderr=f"line {n}") for n in range(2)]
    assert "|" not in show(run(*cases), Screen(terminal=False))
