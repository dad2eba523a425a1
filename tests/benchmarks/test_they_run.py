"""The benchmarks do what they say, with tiny amounts of work. Nothing here asserts a time."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import orjson
import pytest

from benchmarks import growth
from benchmarks.figures import WORKLOADS, Figure, Workload
from benchmarks.growth import KINDS, Curve, Kind, Point
from benchmarks.growth import measure as measure_growth
from benchmarks.report import table
from benchmarks.rounds import FLOOR, NEWEST, OFFICIAL, OURS, Series, available, commands, measure, select
from benchmarks.subject import SubjectError
from benchmarks.workloads import Counts

TINY = Counts(
    starts=1,
    updates=20,
    prompts=20,
    in_flight=4,
    sequential=20,
    nested=10,
    nested_times=2,
    cancels=10,
    cancel_times=2,
    hanging=20,
    waiting=20,
    single_cancels=10,
)
ROOT = Path(__file__).parents[2]


SAME_MOVES = {"first-prompt", "pipelined", "pipelined-echo", "sequential", "burst", "one-cancel", "hanging"}
"""Workloads that ask of an agent what others ask of it, too: ours and the floor show that they work."""


def quiet(what: str) -> None:
    pass


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.figures[0].name)
def test_every_workload_yields_its_figures_for_every_agent(workload: Workload) -> None:
    agents = commands([OURS, FLOOR] if workload.figures[0].name in SAME_MOVES else available())
    measured = measure([workload], agents, TINY, rounds=1, progress=quiet)
    assert [series.figure for series in measured] == list(workload.figures)
    for series in measured:
        assert set(series.samples) == set(agents)
        assert all(len(taken) == 1 for taken in series.samples.values())
        # Twenty waiting prompts may fit into memory that the process already had. And so little work may seem to have
        # cost nothing, for the system counts what a thread has run at its next tick.
        assert series.figure.name == "hanging" or min(map(min, series.samples.values())) >= 0


def test_figures_have_names_of_their_own() -> None:
    names = [figure.name for workload in WORKLOADS for figure in workload.figures]
    assert len(names) == len(set(names))


def test_the_agents_take_turns_and_each_is_the_first_of_a_round() -> None:
    order: list[str] = []
    workload = Workload(lambda command, counts: {"any": 1.0}, (Figure("any", "", ""),))
    measure([workload], commands([OURS, OFFICIAL]), TINY, rounds=2, progress=lambda what: order.append(what))
    assert [line.rpartition(" ")[2] for line in order] == [OURS, OFFICIAL, OFFICIAL, OURS]


def test_the_ratio_is_the_median_of_the_ratios_of_the_rounds() -> None:
    series = Series(Figure("any", "", "", goal=0.5), {OURS: [1, 9, 4], OFFICIAL: [4, 10, 8]})
    assert series.ratio == 0.5
    assert series.verdict == "ok"


@pytest.mark.parametrize(("ours", "verdict"), [(0.5, "ok"), (0.51, "MISSED")])
def test_a_ratio_over_the_goal_is_a_missed_goal(ours: float, verdict: str) -> None:
    assert Series(Figure("any", "", "", goal=0.5), {OURS: [ours], OFFICIAL: [1]}).verdict == verdict


def test_a_figure_measured_on_one_side_only_has_no_verdict() -> None:
    series = Series(Figure("any", "", "", goal=0.5), {OFFICIAL: [1]})
    assert (series.ratio, series.verdict) == (None, "")


def test_only_selects_the_workload_of_a_figure() -> None:
    (workload,) = select(["resident"])
    assert "start" in [figure.name for figure in workload.figures]
    assert select([]) == list(WORKLOADS)


def test_an_agent_that_does_less_than_asked_is_no_measurement(tmp_path: Path) -> None:
    lazy = tmp_path / "lazy.py"
    lazy.write_text((ROOT / "benchmarks/agents/floor.py").read_text().replace("range(amount)", "range(amount // 2)"))
    (workload,) = select(["stream"])
    with pytest.raises(SubjectError, match=r"updates: expected \d+, got \d+"):
        workload.run((sys.executable, str(lazy)), TINY)


def test_an_agent_that_dies_is_reported_with_its_last_words() -> None:
    (workload,) = select(["start"])
    with pytest.raises(SubjectError, match="no agent today"):
        workload.run((sys.executable, "-c", "raise SystemExit('no agent today')"), TINY)


def test_the_command_line_writes_the_table_and_every_sample(tmp_path: Path) -> None:
    target = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "--only", "unknown", "--rounds", "2", "--scale", "0.003"]
    done = subprocess.run(
        [*command, "--json", str(target), "--agents", FLOOR],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "CPU per pipelined method-not-found" in done.stdout
    (figure,) = orjson.loads(target.read_bytes())["figures"]
    assert figure["name"] == "unknown"
    assert len(figure["samples"][FLOOR]) == 2


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_curve_has_a_cost_at_each_of_its_sizes(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growth, "_SAMPLES", 1)
    (curve,) = measure_growth(commands([OURS])[OURS], [replace(kind, sizes=(3, 30))], 1, quiet)
    assert [point.size for point in curve.points] == [3, 30]
    assert all(point.seconds > 0 for point in curve.points)


def test_a_curve_is_linear_if_a_piece_costs_at_the_end_what_it_does_in_the_middle() -> None:
    linear = Curve("any", "", [Point(10, 9.0), Point(100, 10.0), Point(1000, 149.0)])
    more = Curve("any", "", [Point(10, 9.0), Point(100, 10.0), Point(1000, 151.0)])
    assert (linear.is_linear, more.is_linear) == (True, False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--only", "unknown", "--agents", OURS, OFFICIAL, "--rounds", "1"], "CPU per pipelined method-not-found"),
        (["--growth", "--only", "tools"], "tool calls of one turn"),
    ],
)
def test_the_command_line_draws_what_it_has_measured(options: list[str], says: str, tmp_path: Path) -> None:
    picture, target = tmp_path / "figures.svg", tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks", *options, "--scale", "0.003", "--svg", picture, "--json", target]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert (done.returncode in (0, 1), done.stderr) == (True, "")
    assert says in done.stdout
    assert any(says in (text.text or "") for text in ET.parse(picture).iter("{http://www.w3.org/2000/svg}text"))
    written = orjson.loads(target.read_bytes())
    assert len(written["growth"]) + len(written["figures"]) == options.count("--only")


def test_a_curve_is_no_figure() -> None:
    command = [sys.executable, "-m", "benchmarks", "--only", "depth"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 2
    assert "there is no figure depth" in done.stderr


def test_the_newest_sdk_has_a_column_of_ratios_where_it_was_measured() -> None:
    series = Series(Figure("any", "", "", goal=0.5), {OURS: [1, 9], OFFICIAL: [4, 10], NEWEST: [2, 18]})
    assert series.ratio_to(NEWEST) == 0.5
    assert table([series], [OURS, OFFICIAL, NEWEST]).splitlines()[1].split()[-1] == "0.50"
    assert "newest" not in table([series], [OURS, OFFICIAL])
