"""Functions that all reports use: the order and names of verdicts, and foreign text made safe.

Each report also escapes text for its own format.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby

from acp_conformance.core.members import published
from acp_conformance.core.result import CaseResult, Run, Verdict

WORST_FIRST = (
    Verdict.SUITE_ERROR,
    Verdict.ERROR,
    Verdict.FAIL,
    Verdict.WARN,
    Verdict.SLOW,
    Verdict.UNREACHED,
    Verdict.CHOICE,
    Verdict.SKIP,
    Verdict.NOT_APPLICABLE,
    Verdict.PASS,
)

NAMES = {
    Verdict.SUITE_ERROR: "suite error",
    Verdict.ERROR: "could not run",
    Verdict.FAIL: "failed",
    Verdict.WARN: "warned",
    Verdict.SLOW: "too slow",
    Verdict.UNREACHED: "not reached",
    Verdict.CHOICE: "choice",
    Verdict.SKIP: "skipped",
    Verdict.NOT_APPLICABLE: "not applicable",
    Verdict.PASS: "passed",
}
"""The heading of the cases with a verdict."""

PROBLEMS = (Verdict.SUITE_ERROR, Verdict.ERROR, Verdict.FAIL, Verdict.WARN, Verdict.SLOW, Verdict.UNREACHED)


def grouped(run: Run) -> list[tuple[str, list[CaseResult]]]:
    """Return the cases of each group. The groups are in the order of their first cases."""
    order = list(dict.fromkeys(case.group for case in run.cases))
    cases = sorted(run.cases, key=lambda case: order.index(case.group))
    return [(group, list(members)) for group, members in groupby(cases, key=lambda case: case.group)]


def counted(cases: Iterable[CaseResult]) -> str:
    """Return the counts, such as `2 failed, 10 passed`: the worst first, without zeros."""
    verdicts = [case.verdict for case in cases]
    found = [
        f"{verdicts.count(each):,} {_plural(each, verdicts.count(each))}" for each in WORST_FIRST if each in verdicts
    ]
    return ", ".join(found) or "nothing was run"


def subject_of(run: Run) -> str:
    """Return the subject's name and version, and the judged versions, as one safe line; empty if the subject sent no
    name."""
    if run.subject is None:
        return ""
    words = [str(run.subject[key]) for key in ("name", "version") if run.subject.get(key) is not None]
    if not words:
        return ""
    return printable(f"{' '.join(words)} ({protocols_of(run)})")


def tried_of(run: Run) -> str:
    """Return the number of tried cases, such as `250 of the 290 cases that apply were tried`."""
    return f"{run.tried:,} of the {run.applicable:,} cases that apply were tried"


def schema_of() -> str:
    """Return the name of the schema against which messages were checked."""
    return f"schema: {published()}"


def duration(seconds: float) -> str:
    """`45 s`, `3 min`."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def protocols_of(run: Run) -> str:
    """Return the judged versions of the protocol, such as `protocol 1` or `protocols 1 and 2`."""
    return f"protocol{'s' if len(run.protocols) > 1 else ''} {' and '.join(map(str, run.protocols))}"


def rule_of(case: CaseResult) -> str:
    """Return the level and the place of a rule, such as `MUST, ACP v1, Prompt Turn, Cancellation`."""
    return ", ".join(part for part in (str(case.level), case.source, case.section) if part)


def command_of(run: Run) -> str:
    """Return the command as one safe line. A word is quoted only if it would be ambiguous."""
    return printable(
        " ".join(word if word and not set(word) & set(" \t\n\"'\\") else repr(word) for word in run.command)
    )


def printable(text: str) -> str:
    """Return `text` on one line, with escapes for characters that control a terminal, end a document or reverse text.

    The escaped characters are control and format characters, line separators, surrogates and noncharacters.
    """
    return text if text.isascii() and text.isprintable() else "".join(map(_harmless, text))


def printable_lines(text: str) -> str:
    """Return the text like `printable`, but keep line feeds and tabs, for text of several lines."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.replace("\r\n", "\n").split("\n"))


def shortened(text: str, most: int = 300) -> str:
    """`text`, cut beyond `most` characters."""
    return text if len(text) <= most else f"{text[:most]}..."


def columns(text: str) -> int:
    """Return the number of columns that the text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_width, text))


def clipped(text: str, width: int) -> str:
    """Return `text` in at most `width` columns, with `...` at the end if it was cut."""
    if columns(text) <= width:
        return text
    room, kept = width - 3, 0
    if room < 1:
        return "." * max(width, 0)
    for at, character in enumerate(text):
        kept += _width(character)
        if kept > room:
            return text[:at] + "..."
    return text


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return the lines of `text`, of at most `width` columns, each with `indent` in front. Long words are cut."""
    room = max(width - len(indent), 10)
    lines: list[str] = [""]
    for word in text.split():
        while word:
            space = " " if lines[-1] else ""
            if columns(lines[-1]) + len(space) + columns(word) <= room:
                lines[-1] += space + word
                word = ""
            elif lines[-1] and columns(word) <= room:
                lines.append("")
            else:
                head = _head(word, room - columns(lines[-1]) - len(space))
                lines[-1] += space + head if head else ""
                word = word[len(head) :]
                lines.append("")
    return [indent + line for line in lines if line]


def _head(word: str, room: int) -> str:
    kept = 0
    for at, character in enumerate(word):
        kept += _width(character)
        if kept > room:
            return word[:at]
    return word


def _plural(verdict: Verdict, count: int) -> str:
    return "choices" if verdict is Verdict.CHOICE and count != 1 else NAMES[verdict]


def _harmless(character: str) -> str:
    code = ord(character)
    if unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") or _is_noncharacter(code):
        return _escape(code)
    return character


def _escape(code: int) -> str:
    short = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}
    if code in short:
        return short[code]
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_noncharacter(code: int) -> bool:
    return code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def shown_lines(count: int, most: int) -> Sequence[range]:
    """Return the indexes of at most `most` of `count` lines to show: all, or as many from the beginning as from the
    end."""
    if count <= most:
        return [range(count)]
    return [range(most // 2), range(count - most // 2, count)]
