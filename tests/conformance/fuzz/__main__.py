"""`python -m tests.conformance.fuzz [SEED] [CONVERSATIONS]`: agents that answer anything, 10,000 without arguments."""

import sys
from collections import Counter

import anyio

from conformance.core.result import Verdict

from .agents import judge


async def main(seed: int, conversations: int) -> int:
    run, started = await judge(seed, conversations)
    print(f"{started:,} agents, {len(run.cases):,} verdicts:", dict(Counter(str(case.verdict) for case in run.cases)))
    mistakes = Counter(case.reason for case in run.cases if case.verdict is Verdict.SUITE_ERROR)
    for reason, count in mistakes.most_common():
        print(f"{count} times: {reason}")
    return 1 if mistakes else 0


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    sys.exit(anyio.run(main, numbers[0] if numbers else 1, numbers[1] if len(numbers) > 1 else 10_000))
