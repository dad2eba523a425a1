"""`make editors`: each editor that is here takes every step; a table of what came of it.

python -m tests.editors [--screens FOLDER] [--step WORDS] [EDITOR...]
"""

import argparse
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

from . import EDITORS
from .editor import Editor, Place, eventually
from .steps import AUTHOR, BUILT_IN


def main() -> int:
    parser = argparse.ArgumentParser("tests.editors", description=__doc__)
    parser.add_argument("editors", nargs="*", metavar="EDITOR", help=f"of {', '.join(EDITORS)}; without one, all")
    parser.add_argument("--screens", type=Path, help="a folder for the last screen of each step, and what was said")
    parser.add_argument("--step", default="", help="only steps with these words")
    options = parser.parse_args()
    failed = 0
    for name in options.editors or EDITORS:
        kind = EDITORS[name]
        if missing := kind.missing():
            print(f"{kind.name}: skipped, for want of {', '.join(missing)}", flush=True)
            continue
        print(f"{kind.name}: {kind.version()}", flush=True)
        for step, taken in {**AUTHOR, **BUILT_IN}.items():
            if options.step in step:
                said = tried(kind, step, taken, options.screens)
                failed += said.startswith("FAILED")
                print(f"  {step}: {said}", flush=True)
    return min(failed, 1)


def tried(kind: type[Editor], step: str, taken: Callable[[Editor], None], screens: Path | None) -> str:
    """What the user has seen, or how it failed."""
    if step not in kind.shows:
        return "cannot be done there"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        last = ""
        try:
            place = Place(Path(folder), built_in=step in BUILT_IN)
            editor = kind(place)
            try:
                editor.start()
                taken(editor)
            finally:
                last = kept(editor, step, screens)
                editor.leave()
            eventually(lambda: not place.processes(), f"these have ended: {place.processes()}")
        except (AssertionError, ValueError, IndexError, KeyError) as error:
            traceback.print_exc(file=sys.stderr)
            print(last, file=sys.stderr)
            return f"FAILED, {type(error).__name__}"
    return kind.shows[step]


def kept(editor: Editor, step: str, screens: Path | None) -> str:
    """The last screen, which is also kept where the user wants it."""
    if screens is not None:
        folder = screens / editor.name.replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / step.replace(" ", "-").replace(",", "")
        path.with_suffix(".txt").write_text(editor.screen.text)
        path.with_suffix(".ndjson").write_text("\n".join(map(str, editor.wire.lines())))
    return editor.screen.text


if __name__ == "__main__":
    sys.exit(main())
