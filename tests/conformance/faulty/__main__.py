"""`python -m tests.conformance.faulty [SECONDS]`: agents without a fault, each of whose answers takes so long.

The clean agent is judged by all cases, and each that uses a freedom by those that must not mind.
"""

import sys
from collections.abc import Sequence

import anyio

from acp_conformance.agent import cases as agent_cases
from acp_conformance.agent import profile
from acp_conformance.agent.run import AgentRun
from acp_conformance.core.case import Case
from acp_conformance.core.result import Verdict

from .test_faults import CHOICES, COMMAND, HERE, SECONDS_OF_A_CASE

AT_ONCE = 6
JOBS = 8
RIGHT = {Verdict.PASS, Verdict.CHOICE, Verdict.NOT_APPLICABLE, Verdict.SKIP, Verdict.SLOW}
"""To be too slow for a case breaks no rule."""


async def main(seconds: str) -> int:
    cases = agent_cases.load()
    known = profile.load(str(HERE / "profile.toml"))
    slots = anyio.Semaphore(AT_ONCE)
    accusations = 0

    async def judge(name: str, chosen: Sequence[Case]) -> None:
        nonlocal accusations
        async with slots:
            run = await AgentRun((*COMMAND, name, seconds), known, timeout=SECONDS_OF_A_CASE, jobs=JOBS).run(chosen)
        wrong = [each for each in run.cases if each.verdict not in RIGHT]
        accusations += len(wrong)
        print(f"{name}: {len(run.cases)} cases, {len(wrong)} accusations", flush=True)
        for each in wrong:
            print(f"    {each.id}: {each.verdict}: {each.reason}")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(judge, "clean/clean", list(cases))
        for name, patterns in CHOICES.items():
            tasks.start_soon(judge, name, list(cases.matching(patterns)))
    return 1 if accusations else 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, sys.argv[1] if len(sys.argv) > 1 else "0.02"))
