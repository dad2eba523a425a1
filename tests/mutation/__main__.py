"""`python -m tests.mutation PATH...`: change the conditions, statements and values of these modules, one at a time, and
list the changes that no test notices. Linux only.

All of it happens in a copy. A change that makes no difference stands in `equivalent.toml` with its reason, and is left
out.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from tests.mutation.places import Mutant, Switches

ROOT = Path(__file__).resolve().parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent.toml")


def main() -> int:
    """The number of survivors, as an exit code."""
    parser = argparse.ArgumentParser(prog="make mutate", description=__doc__)
    parser.add_argument("paths", nargs="+", help="files (FILE:LINE for one line) or folders of the package")
    parser.add_argument(
        "--tests", nargs="+", default=[], help="test files or folders (default: the folders of the same names)"
    )
    parser.add_argument("--seconds", type=float, default=20, help="of tests for each mutant (default: 20)")
    parser.add_argument("--sample", type=int, metavar="N", help="only N of the changes, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the draw (default: 0)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="acp-mutation-") as folder:
        copy = Path(folder)
        _copy(copy)
        wanted: dict[str, set[int | None]] = {}
        for file, line in _files_and_lines(options.paths):
            wanted.setdefault(file, set()).add(line)
        mutants = [each for each in _put_switches(copy, wanted) if wanted[each.file] & {None, each.line}]
        if options.sample is not None and options.sample < len(mutants):
            drawn = Random(options.seed).sample(mutants, options.sample)
            mutants = [each for each in mutants if each in drawn]
        return _run(copy, mutants, options.tests or _tests_of(wanted), options.seconds)


def _copy(copy: Path) -> None:
    others = shutil.ignore_patterns(".*", "__pycache__", "node_modules", "build", "dist", "htmlcov")
    shutil.copytree(ROOT, copy, ignore=others, dirs_exist_ok=True)
    shutil.copy2(Path(__file__).with_name("switch.py"), copy / "acp_server" / "_switch.py")


def _files_and_lines(paths: list[str]) -> Iterator[tuple[str, int | None]]:
    for path in paths:
        name, _, line = path.partition(":")
        found = ROOT / name
        for file in sorted(found.rglob("*.py")) if found.is_dir() else [found]:
            yield file.relative_to(ROOT).as_posix(), int(line) if line else None


def _put_switches(copy: Path, files: Iterable[str]) -> list[Mutant]:
    mutants: list[Mutant] = []
    place = 0
    for file in files:
        switches = Switches(file, (ROOT / file).read_text("utf-8"), place)
        (copy / file).write_text(switches.module(), "utf-8")
        mutants += switches.mutants
        place = switches.next
    return mutants


def _tests_of(files: Iterable[str]) -> list[str]:
    folders = {Path("tests", *Path(file).parts[1:-1][:1]).as_posix() for file in files}
    return sorted(folder for folder in folders if (ROOT / folder).is_dir())


def _run(copy: Path, mutants: list[Mutant], tests: list[str], seconds: float) -> int:
    equivalent = {
        (each["file"], each["text"], each["change"]) for each in tomllib.loads(EQUIVALENT.read_text())["mutant"]
    }
    wanted = {
        f"{mutant.place}:{mutant.change}": mutant
        for mutant in mutants
        if (mutant.file, mutant.text, mutant.change) not in equivalent
    }
    (copy / "mutants").write_text(json.dumps([[key, mutant.place, mutant.file] for key, mutant in wanted.items()]))
    options = ["-p", "tests.mutation.plugin", "-p", "no:cacheprovider", f"--basetemp={copy / 'tmp'}"]
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=copy,
        env=os.environ
        | {"PYTHONPATH": str(copy), "ACP_MUTATION_REPORT": str(writing), "ACP_MUTATION_SECONDS": str(seconds)},
        pass_fds=[writing],
        stdout=subprocess.DEVNULL,
    )
    os.close(writing)
    verdicts = Counter[str]()
    with os.fdopen(reading) as lines:
        for line in lines:
            said = json.loads(line)
            if "verdict" not in said:
                print(" ".join(f"{key}: {value}" for key, value in said.items()), flush=True)
                continue
            verdicts[said["verdict"]] += 1
            if said["verdict"] != "caught":
                of = f"{said['run']} of {said['able']} tests"
                print(f"{said['verdict']:9} {wanted[said['mutant']]}  ({of})", flush=True)
    if process.wait() or verdicts.total() < len(wanted):
        raise RuntimeError("the tests did not run to their end")
    print(f"{len(mutants)} mutants, {len(mutants) - len(wanted)} equivalent;", dict(verdicts))
    return min(100, verdicts["survived"] + verdicts["unreached"])


sys.exit(main())
