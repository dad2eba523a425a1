"""Each condition, statement and value is changed, and a change that no test notices is told."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.mutation import switch
from tests.mutation.places import SWITCH, Mutant, Switches

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The switch stands where a mutated module finds it, and stands as before when the test ends."""
    package = ModuleType("acp_server")
    monkeypatch.setattr(package, "_switch", switch, raising=False)
    monkeypatch.setitem(sys.modules, "acp_server", package)
    monkeypatch.setitem(sys.modules, SWITCH, switch)
    monkeypatch.setattr(switch, "_place", -1)
    monkeypatch.setattr(switch, "_change", "")
    monkeypatch.setenv("ACP_MUTANT", "")
    switch.HITS.clear()
    return monkeypatch


CONDITIONS = ("True", "False", "slips")
STATEMENTS = ("gone", "plus one", "flipped", "None")


def results(source: str, changes: tuple[str, ...], *arguments: Any) -> dict[str, Any]:
    """What `f` returns unchanged, and with each of these changes."""
    switches = Switches("m.py", source, 0)
    module: dict[str, Any] = {}
    exec(switches.module(), module)
    found = {"": module["f"](*arguments)}
    for mutant in (each for each in switches.mutants if each.change in changes):
        switch.choose(f"{mutant.place}:{mutant.change}")
        found[f"{mutant.text} {mutant.change}"] = module["f"](*arguments)
    return found


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if x:\n  return 1\n return 2", {"": 1, "x True": 1, "x False": 2}),
        ("return 1 if not x else 2", {"": 2, "not x True": 1, "not x False": 2}),
        ("while x:\n  return 1\n return 2", {"": 1, "x False": 2}),
        ("return [y for y in (1, 2) if y == x]", {"": [1], "y == x True": [1, 2], "y == x False": []}),
        ("return x or 2", {"": 1, "x False": 2, "2 False": 1}),
        ("return 0 and x", {"": 0, "0 True": 1, "x True": 0}),
        ("return x < 1", {"": False, "x < 1 True": True, "x < 1 False": False, "x < 1 slips": True}),
        ("return 0 < x <= 1", {"": True, "0 < x <= 1 True": True, "0 < x <= 1 False": False}),
        ("return 1 if (y := x) else 2", {"": 1, "y := x True": 1, "y := x False": 2}),
    ],
)
def test_a_condition_is_forced_to_either_side(body: str, expected: dict[str, Any], chosen: pytest.MonkeyPatch) -> None:
    assert results(f"def f(x):\n {body}\n", CONDITIONS, 1) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x.clear()\n return x", {"": [], "x.clear() gone": [5], "x None": None}),
        ("x[0] += 1\n return x", {"": [6], "x[0] += 1 gone": [5], "0 plus one": IndexError, "1 plus one": [7]}),
        ("del x[:]\n return x", {"": [], "del x[:] gone": [5], "x None": None}),
        ("return dict(a=x, b=True)", {"": {"a": [5], "b": True}, "dict(a=x, b=True) None": None,
                                      "x None": {"a": None, "b": True}, "True flipped": {"a": [5], "b": False}}),
        ("raise KeyError", {"": KeyError, "raise KeyError gone": None}),
        ("match x:\n  case [5]:\n   pass", {"": None}),
    ],
)  # fmt: skip
def test_a_statement_is_left_out_and_a_value_is_changed(
    body: str, expected: dict[str, Any], chosen: pytest.MonkeyPatch
) -> None:
    source = (
        f"def g(x):\n {body}\ndef f(x):\n try: return g(list(x))\n except LookupError as error: return type(error)\n"
    )
    found = results(source, STATEMENTS, (5,))
    assert {name: value for name, value in found.items() if name in expected} == expected


def test_only_what_runs_in_functions_is_left_out() -> None:
    switches = Switches("m.py", "x = dict(a=1)\nx.clear()\ndef f(y=2):\n 'Doc.'\n", 0)
    switches.module()
    assert switches.mutants == []


@pytest.mark.skipif(sys.platform != "linux", reason="a mutation run needs Linux")
def test_a_sample_is_part_of_the_changes(tmp_path: Path) -> None:
    path, test = "acp_server/wire/batch.py", "tests/wire/test_batch.py::test_a_batch_without_places_has_no_answer"
    command = [sys.executable, "-m", "tests.mutation", path, "--tests", test, "--sample", "3", "--seed", "1"]
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert "3 mutants" in done.stdout.splitlines()[-1], done


@pytest.mark.parametrize("unreached", ["if TYPE_CHECKING:\n  import x", "assert x == 1", "y: 'a or b' = x"])
def test_what_the_program_does_not_decide_is_left_alone(unreached: str) -> None:
    switches = Switches("m.py", f"def f(x):\n {unreached}\n", 0)
    switches.module()
    assert switches.mutants == []


def test_a_module_keeps_its_docstring_and_tells_where_its_conditions_stand() -> None:
    switches = Switches("m.py", '"""Doc."""\nfrom __future__ import annotations\n\nx = (1 ==\n  2)\n', 7)
    assert switches.module().startswith('"""Doc."""\nfrom __future__ import annotations\nimport ')
    assert switches.mutants[0] == Mutant(7, "True", "m.py", 4, "1 == 2")


@pytest.mark.skipif(sys.platform != "linux", reason="a mutation run needs Linux")
def test_a_run_tells_which_changes_no_test_notices(tmp_path: Path) -> None:
    test = "tests/wire/test_batch.py::test_a_batch_without_places_has_no_answer"
    process = subprocess.run(
        [sys.executable, "-m", "tests.mutation", "acp_server/wire/batch.py", "--tests", test],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert process.stderr == ""
    *survivors, last = process.stdout.splitlines()[1:]
    assert any(line.startswith("survived  acp_server/wire/batch.py:") for line in survivors)
    assert any(line.startswith("unreached acp_server/wire/batch.py:") for line in survivors)
    assert not any("not self._answers  ->  False" in line for line in survivors)
    assert process.returncode == len(survivors)
    assert "'caught': " in last
    assert list(tmp_path.iterdir()) == []
