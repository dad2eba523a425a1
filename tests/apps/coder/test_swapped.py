"""Between the question and the change a folder is swapped for a link: nothing outside of the project is ever changed.

See `tests/swapping.py`.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from acp_server.apps.coder import change
from acp_server.apps.coder.read import Reading, read_text
from acp_server.apps.coder.roots import Refusal, Roots
from tests.session.editor import END_TURN
from tests.swapping import SWAPS, World, whole, worlds

from .client import FILES, PERMISSION, WRITE, Buffers, asked, chosen
from .talk import nothing_worth_a_warning, project, talking

__all__ = ["nothing_worth_a_warning", "project"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="what is done relative to an open folder")

OLD, NEW, DEEP = "a/b/old.txt", "a/b/new.txt", "a/b/c/d/new.txt"
CASES = [(swap, name, False) for swap in SWAPS for name in (OLD, NEW, DEEP)]
# Where a file cannot be without a name until it is in its place.
CASES += [(swap, name, True) for swap in ("the folder", "a folder above, moved outside") for name in (OLD, DEEP)]


def changing(world: World, name: str, old: str | None) -> Callable[[], str]:
    """What /edit and /write do from the question on, in a session of the project. The user says yes at once."""
    roots = Roots(world.project)

    def change_it() -> str:
        _, place = change._found(roots, name)
        if read_text(place, name) != old:
            raise change.Changed
        change.replace_text(place, old, "new", lambda commit: commit())
        return "changed"

    return change_it


@pytest.mark.parametrize(("swap", "name", "named"), CASES)
def test_a_link_at_any_step_leads_no_change_outside(
    tmp_path: Path, swap: str, name: str, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = "old" if name == OLD else None
    if named:
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    runs = 0
    for world, result in worlds(tmp_path, swap, lambda world: changing(world, name, old)):
        runs += 1
        assert world.is_unharmed, (swap, runs, result)
        taken = world.base / "taken"
        # The call that puts the text in its place. What is told to be changed is where it was shown.
        if swap != "the file" and ("replace" if name == OLD else "link") in world.calls:
            assert result != "changed", (swap, runs, world.calls)
        if result != "changed":
            assert isinstance(result, (change.Changed, Refusal)), (runs, result)
            # Not what was moved either: it may be outside by now.
            for place in (world.project, world.base / "aside", taken):
                assert "new" not in whole(place).values(), (swap, runs)
                assert not [left for left in whole(place) if left.endswith(".tmp")]
            assert not taken.is_file() or taken.read_text() == "old"
    assert runs > 50  # a thousand of them and more, in all


@pytest.mark.parametrize("swap", SWAPS)
def test_a_link_at_any_step_lets_nothing_outside_be_read(tmp_path: Path, swap: str) -> None:
    def reading(world: World) -> Callable[[], Any]:
        roots = Roots(world.project)
        (world.outside / OLD).write_text("secret")
        (world.outside / "old.txt").write_text("secret")
        return lambda: [passage.text for passage in Reading(roots, OLD).run() if passage is not None]

    for _, result in worlds(tmp_path, swap, reading):
        assert result == ["old"] or isinstance(result, Refusal), result


def _swapped(project: Path, *, link: bool) -> None:
    """The project's folder `src` becomes another folder that has the same in it, or a link to that."""
    other = project.parent / "outside"
    other.mkdir()
    (other / "app.py").write_text((project / "src" / "app.py").read_text())
    (project / "src").rename(project / "source")
    if link:
        (project / "src").symlink_to(other, target_is_directory=True)
    else:
        other.rename(project / "src")


def _leads_to(link: Path, folder: Path) -> None:
    folder.mkdir()
    link.unlink()
    link.symlink_to(folder, target_is_directory=True)


@pytest.mark.anyio
async def test_a_link_to_the_project_that_leads_elsewhere_meanwhile_is_not_written_through_by_the_client(
    project: Path,
) -> None:
    other = project.parent / "outside"
    async with talking(capabilities=FILES) as talk:
        Buffers(talk, {project / "README.md": "first\nneedle\n"})
        session = await talk.open(str(project))
        id = await talk.prompt(session, "/edit README.md needle => pin")
        question = await asked(talk, PERMISSION)
        _leads_to(project, other)
        await talk.client.respond(question, chosen("allow_once"))
        assert "was changed in the meantime" in (await talk.told(session, id)).text
        assert not talk.asked(WRITE)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "command", ["/edit src/app.py needle => pin", "/write src/app.py new", "/write src/new.py new"]
)
@pytest.mark.parametrize("capabilities", [{}, FILES], ids=["on disk", "through the client"])
@pytest.mark.parametrize("link", [True, False], ids=["a link", "another folder"])
async def test_a_folder_that_is_swapped_while_the_user_is_asked_is_not_written_to(
    project: Path, capabilities: dict[str, Any], command: str, link: bool
) -> None:
    async with talking(capabilities=capabilities) as talk:
        if capabilities:
            Buffers(talk, {project / "src" / "app.py": "# TODO: needle\n", project / "src" / "new.py": ""})
        session = await talk.open(str(project))
        id = await talk.prompt(session, command)
        question = await asked(talk, PERMISSION)
        _swapped(project, link=link)
        before = whole(project.parent)
        await talk.client.respond(question, chosen("allow_once"))
        told = await talk.told(session, id)
        assert told.answer == END_TURN
        assert "was changed in the meantime, so it was not overwritten" in told.text
        assert told.call["status"] == "failed"
        assert whole(project.parent) == before
        assert not talk.asked(WRITE)
