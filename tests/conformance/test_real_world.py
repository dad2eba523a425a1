"""Agents of others are judged as it is written down: each failure with its reason, and nothing that no longer holds.

The example agents of the official SDKs are judged as they were published: that of the Python SDK is in its source
package, that of the TypeScript SDK in the last package which has it. They do little in a turn, so an agent of our own
on each SDK has the other situations; those are written with care, so that what they fail at is the SDK's doing.
`codex-acp` is a prebuilt agent without an account, of which only the generic cases can be tried. What is expected
stands in `real_world/AGENT.toml`: the verdict, why it is so, and the cases. Everything else passes, or is a choice.
"""

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

import anyio
import pytest

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent import profile
from acp_conformance.agent.profile import Profile
from acp_conformance.agent.run import AgentRun
from acp_conformance.agent.v2 import cases as v2_cases
from acp_conformance.core.case import Case
from acp_conformance.core.process import Start, spawn
from acp_conformance.core.result import CaseResult, Run, Verdict
from tests.conformance.node_host import NOT_IN_A_HOST, node_host
from tests.conformance.report import runs
from tests.prefork import Prefork, prefork

HERE = Path(__file__).parent / "real_world"
NODE = HERE / "node"
LOCK = HERE.parents[2] / "requirements.lock"
SITUATIONS = str(HERE / "situations.toml")
PATIENCE = 20.0
# Cases that are tried beside each other. In most of them the suite waits for what must not come.
AT_ONCE = 16
BEGINNING = ("initialize", "batch", "sessions")


@dataclass(frozen=True)
class Expectation:
    """Cases that are known to end in a verdict other than a pass or a choice, by their ids or by their reasons."""

    verdict: Verdict
    because: str
    cases: Sequence[str] = ()
    says: Sequence[str] = ()
    """Patterns of reasons; only for cases that were not tried."""

    def covers(self, case: CaseResult) -> bool:
        return case.id in self.cases or (case.verdict is self.verdict and self._says(case.reason))

    def _says(self, reason: str) -> bool:
        return any(fnmatchcase(reason, pattern) for pattern in self.says)

    def stale(self, run: Run) -> list[str]:
        """What no case fits any more."""
        found = [id for id in self.cases if id not in {case.id for case in run.cases}]
        reasons = [case.reason for case in run.cases if case.verdict is self.verdict]
        return found + [each for each in self.says if not any(fnmatchcase(reason, each) for reason in reasons)]


def read(name: str) -> list[Expectation]:
    document = tomllib.loads((HERE / f"{name}.toml").read_text("utf-8"))
    expected = [Expectation(**{**each, "verdict": Verdict(each["verdict"])}) for each in document.pop("expected")]
    assert not document
    for each in expected:
        assert each.because
        assert not each.says or each.verdict in (Verdict.SKIP, Verdict.NOT_APPLICABLE)
    return expected


def differences(run: Run, expected: Sequence[Expectation]) -> list[str]:
    """What is not as it is written down, in words; empty if all is."""
    found: list[str] = []
    for case in run.cases:
        written = [each for each in expected if each.covers(case)]
        if len(written) > 1:
            found.append(f"{case.id} is written down twice")
        verdict = written[0].verdict if written else Verdict.PASS
        if case.verdict is not verdict and (written or case.verdict is not Verdict.CHOICE):
            found.append(f"{case.id}: {verdict} is expected, and it is {case.verdict}: {case.reason}")
    return found + [f"no case fits {pattern!r}" for each in expected for pattern in each.stale(run)]


def judge(command: Sequence[str], situations: Profile, cases: Iterable[Case] = (), start: Start = spawn) -> Run:
    """Judge an agent by these cases, or all."""
    judged = AgentRun(command, situations, timeout=PATIENCE, jobs=AT_ONCE, start=start)
    return anyio.run(judged.run, cases or agent_cases.load())


@pytest.fixture
def python_example(pytestconfig: pytest.Config) -> Path:
    """`examples/agent.py` of the Python SDK's source package: of the version that is installed, with the locked hash.

    A test that needs it is skipped where it cannot be had, and fails there in CI.
    """
    locked = re.search(r"^agent-client-protocol==(\S+)(?: \\\n    --hash=\S+)+", LOCK.read_text("utf-8"), re.MULTILINE)
    assert locked
    assert pytestconfig.cache
    folder = pytestconfig.cache.mkdir("python-sdk")
    stem = f"agent_client_protocol-{locked[1]}"
    found = folder / stem / "examples" / "agent.py"
    if not found.exists():
        wanted = folder / "requirements.txt"
        wanted.write_text(locked[0], "utf-8")
        options = ["--quiet", "--no-deps", "--no-binary", "agent-client-protocol", "--require-hashes"]
        pip = [sys.executable, "-m", "pip", "download", *options, "--dest", str(folder), "--requirement", str(wanted)]
        fetched = subprocess.run(pip, capture_output=True, text=True, timeout=200, check=False)
        if fetched.returncode:
            missing = f"the source package of the Python SDK cannot be had: {fetched.stderr[-1000:]}"
            pytest.fail(missing, pytrace=False) if os.environ.get("CI") == "true" else pytest.skip(missing)
        with tarfile.open(folder / f"{stem}.tar.gz") as package:
            package.extractall(folder, filter="data")
    return found


@pytest.fixture(scope="module")
def sdk() -> Iterator[Prefork]:
    """Starts programs that use the Python SDK, which takes most of a second to import."""
    with prefork("acp") as started:
        yield started


def test_the_example_agent_of_the_python_sdk(python_example: Path, sdk: Prefork) -> None:
    run = judge([sys.executable, str(python_example)], profile.load("python_sdk"), start=sdk.start)
    assert not (wrong := differences(run, read("python_example"))), "\n".join(wrong)


def test_an_agent_on_the_python_sdk_in_every_situation(sdk: Prefork) -> None:
    # It is not tried once more on what the example was tried on.
    known = profile.load("python_sdk").situations
    cases = [case for case in agent_cases.load() if not known.keys() >= set(case.needs)]
    run = judge([sys.executable, str(HERE / "python_agent.py")], profile.load(SITUATIONS), cases, start=sdk.start)
    assert not (wrong := differences(run, read("python_sdk"))), "\n".join(wrong)


@pytest.fixture(scope="module")
def node() -> Iterator[Start]:
    """Starts agents that use the TypeScript SDK in one process."""
    with tempfile.TemporaryDirectory() as folder, node_host(Path(folder)) as start:
        yield start


def judge_in(node: Start, command: Sequence[str], situations: Profile, cases: Iterable[Case] = ()) -> Run:
    """Judge in processes by what is about the process, and by the rest in the host."""
    chosen = list(cases or agent_cases.load())
    alone = [case for case in chosen if case.group in NOT_IN_A_HOST]
    first = judge(command, situations, alone) if alone else None
    run = judge(command, situations, [case for case in chosen if case not in alone], node)
    return replace(run, cases=[*run.cases, *(first.cases if first else ())])


@pytest.mark.usefixtures("require_npm")
def test_the_example_agent_of_the_typescript_sdk(node: Start) -> None:
    agent = NODE / "node_modules" / "@agentclientprotocol" / "sdk-1" / "dist" / "examples" / "agent.js"
    # The newest SDK is tried on everything below; of this older one, what its turns do and how it begins.
    cases = [case for case in agent_cases.load() if case.needs or case.whole_run or case.group in BEGINNING]
    run = judge_in(node, ["node", str(agent)], profile.load("typescript_sdk"), cases)
    assert not (wrong := differences(run, read("typescript_example"))), "\n".join(wrong)


@pytest.mark.usefixtures("require_npm")
def test_an_agent_on_the_typescript_sdk_in_every_situation(node: Start) -> None:
    run = judge_in(node, ["node", str(NODE / "agent.js")], profile.load(SITUATIONS))
    assert not (wrong := differences(run, read("typescript_sdk"))), "\n".join(wrong)


@pytest.mark.usefixtures("require_npm")
def test_an_agent_of_version_2_on_the_typescript_sdk(node: Start) -> None:
    agent = HERE.parents[1] / "interop" / "node" / "agent_v2.js"
    known = profile.load(str(HERE / "situations_v2.toml"))
    run = judge_in(node, ["node", str(agent)], known, v2_cases.load())
    assert not (wrong := differences(run, read("typescript_v2"))), "\n".join(wrong)


@pytest.mark.usefixtures("require_npm")
def test_a_prebuilt_agent_without_an_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CODEX_HOME", "CODEX_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    # What its launcher, a script of npm's, looks for and starts.
    (program,) = NODE.glob("node_modules/@zed-industries/codex-acp-*/bin/codex-acp*")
    run = judge([str(program)], Profile())
    assert not (wrong := differences(run, read("codex_acp"))), "\n".join(wrong)


def expect(verdict: str, *cases: str, says: str = "") -> Expectation:
    return Expectation(Verdict(verdict), "so it is", cases, [says] if says else [])


def test_what_is_written_down_must_be_so() -> None:
    run = runs.run(
        runs.result("a/pass"),
        runs.result("a/choice", Verdict.CHOICE, "this way"),
        runs.result("a/fail", Verdict.FAIL, "twice"),
        runs.result("a/skip", Verdict.SKIP, "no hang"),
        runs.result("b/skip", Verdict.SKIP, "no quick"),
    )
    right = [expect("fail", "a/fail"), expect("skip", says="no *")]
    assert differences(run, right) == []
    assert differences(run, right[1:]) == ["a/fail: pass is expected, and it is fail: twice"]
    assert differences(run, [*right, expect("fail", "a/pass")]) == ["a/pass: fail is expected, and it is pass: "]
    assert differences(run, [*right, expect("warn", "a/choice")]) == [
        "a/choice: warn is expected, and it is choice: this way"
    ]
    assert differences(run, [right[0], expect("skip", says="no h*")]) == [
        "b/skip: pass is expected, and it is skip: no quick"
    ]
    assert differences(run, [*right, expect("warn", "c/gone")]) == ["no case fits 'c/gone'"]
    assert differences(run, [*right, expect("skip", says="twice")]) == ["no case fits 'twice'"]
    assert differences(run, [*right, expect("skip", "a/skip")]) == ["a/skip is written down twice"]
