"""What the diffs of version 2 say can be applied by git, and says what has changed."""

import subprocess
from itertools import product
from pathlib import Path
from random import Random

import pytest

from acp_server.schema import from_wire, v2
from acp_server.session.v2.forms import diff, git_patch

NAMES = ["plain", "with space", 'quo"te', "back\\slash", "tab\t", "line\nbreak", "gr\u00fc\u00df", "\u202eright"]
TEXTS = [
    "",
    "a",
    "a\n",
    "a\r\nb\r\n",
    "\n\n",
    "a\nb\nc\nd\ne\nf\ng\nh\ni\n",
    "a\nb\nc\nd\ne\nf\ng\nh\ni\nj",
    "\u2028\x0c\n",
]


def changes() -> list[tuple[str | None, str]]:
    """Pairs of texts: all of the short ones, and long ones with a few changes."""
    random = Random(7)
    found: list[tuple[str | None, str]] = [
        *((old, new) for old, new in product(TEXTS, TEXTS) if old != new),
        *((None, text) for text in TEXTS if text),
    ]
    for size in (5, 40, 700, 3000):
        lines = [f"line {number}\n" for number in range(size)]
        for cut in (1, size // 3, size):
            changed = lines.copy()
            for _ in range(cut):
                place = random.randrange(len(changed) + 1)
                changed[place : place + random.randint(0, 2)] = ["new\n"] * random.randint(0, 2)
            if changed != lines:
                found.append(("".join(lines), "".join(changed)))
    return found


def test_git_makes_the_new_text_of_the_old_one(tmp_path: Path) -> None:
    patches: list[str] = []
    wanted: dict[Path, str] = {}
    for number, (old, new) in enumerate(changes()):
        name = f"{number} {NAMES[number % len(NAMES)]}"
        if old is not None:
            (tmp_path / name).write_bytes(old.encode())
        patches.append(git_patch(f"/{name}", old, new))
        wanted[tmp_path / name] = new
    # Each of them by itself, as a client takes them; a patch of all is their sum.
    done = subprocess.run(["git", "apply", "-"], cwd=tmp_path, input="".join(patches).encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert {path: path.read_bytes().decode() for path in wanted} == wanted


def test_a_patch_has_what_is_around_a_change_and_no_more() -> None:
    old = "".join(f"{number}\n" for number in range(100))
    assert git_patch("/f", old, old.replace("50\n", "fifty\n")).splitlines() == [
        "diff --git /f /f",
        "--- /f",
        "+++ /f",
        "@@ -48,7 +48,7 @@",
        *(f" {number}" for number in (47, 48, 49)),
        "-50",
        "+fifty",
        *(f" {number}" for number in (51, 52, 53)),
    ]


def test_the_same_text_has_no_patch() -> None:
    assert git_patch("/f", "a\n", "a\n") == ""
    assert "patch" not in diff({"type": "diff", "path": "/f", "oldText": "a", "newText": "a"})


@pytest.mark.parametrize(("old", "operation"), [(None, "add"), ("", "modify"), ("b", "modify")])
def test_a_diff_says_what_is_done_to_the_file(old: str | None, operation: str) -> None:
    told = diff({"type": "diff", "path": "/f", "oldText": old, "newText": "a", "_meta": {"k": 1}})
    assert told["changes"] == [{"operation": operation, "path": "/f", "fileType": "text"}]
    assert told["patch"]["format"] == "git_patch"
    assert told["_meta"] == {"k": 1}
    assert not {"oldText", "newText", "path"} & told.keys()
    update = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": [told]}
    assert from_wire(v2.SessionUpdate, update).to_wire() == update
