"""`python -m tests.conformance.fuzz agent|client [SEED] [COUNT]`: subjects that answer anything, 10,000 of them."""

import sys
from collections import Counter

import anyio

from acp_conformance.core.result import Verdict

from . import agents, clients


async def main(kind: str, seed: int, conversations: int) -> int:
    run, started = await (agents if kind == "agent" else clients).judge(seed, conversations)
    print(f"{started:,} {kind}s, {len(run.cases):,} verdicts:", dict(Counter(str(each.verdict) for each in run.cases)))
    wrong = [case for case in run.cases if case.verdict is Verdict.SUITE_ERROR]
    stuck = Counter(case.reason for case in run.cases if case.verdict is Verdict.ERROR)
    for reason, count in stuck.most_common():
        print(f"could not run, {count} times: {reason}")
    mistakes = Counter((case.id, case.reason[-600:]) for case in wrong)
    for (case, reason), count in mistakes.most_common():
        print(f"{case}, {count} times: ...{reason}")
    return 1 if mistakes else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[2:]]
    seed, conversations = [*numbers, *(1, 10_000)[len(numbers) :]]
    sys.exit(anyio.run(main, sys.argv[1], seed, conversations))
