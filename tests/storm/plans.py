"""What the handlers of a storm do: random compositions, as plain JSON, so that a prompt can carry them to a process.

A plan is a list of steps, a step is `[name, *arguments]`; what each one does is in `handlers`. The arguments may be
plans again.
"""

from random import Random
from typing import Any

Step = list[Any]
Plan = list[Step]

TOOLS = ("coroutine", "stream", "plain", "pieces")
"""The forms of tools: an async function, an async generator, a plain function in a thread, a plain generator."""
ASKS = ("read", "write", "ask", "permission", "elicit")
FAILURES = ("value", "rpc", "group", "base", "withdrawn", "timeout", "stray", "exit")


class Planner:
    """Draws plans by lot. `grace`: seconds that a cancelled request has for cleaning up; longer and shorter ones are
    drawn around it."""

    def __init__(self, random: Random, grace: float, process: bool = False) -> None:
        self._random = random
        self._grace = grace
        self._process = process

    def prompt(self) -> Plan:
        """What a prompt's handler does."""
        return self._plan(depth=3, longest=4)

    def method(self) -> Plan:
        """What a method of the agent's own does."""
        plan = self._plan(depth=2, longest=3, turn=False)
        return [["say"], *plan] if self._random.random() < 0.5 else plan

    def thread(self) -> Plan:
        """What a plain function does in its thread."""
        steps: dict[str, int] = {"say": 5, "read": 3, "gate": 3, "look": 3, "raise": 1}
        drawn = self._random.choices(list(steps), list(steps.values()), k=self._random.randint(0, 4))
        return [[name, self._random.choice(FAILURES[:2])] if name == "raise" else [name] for name in drawn]

    def _plan(self, depth: int, longest: int, turn: bool = True) -> Plan:
        return [self._step(depth - 1, turn) for _ in range(self._random.randint(0, longest))]

    def _step(self, depth: int, turn: bool) -> Step:
        random = self._random
        steps = {"say": 6, "ask": 6, "steps": 3, "sleep": 2, "hang": 2, "raise": 1, "thread": 1}
        if self._process:
            steps["child"] = 2
        if turn:
            steps |= {"stop": 1}
        if depth > 0:
            steps |= {"all": 3, "shield": 2, "finally": 4, "swallow": 2, "limit": 2, "native": 2}
            if turn:
                steps |= {"tools": 8, "terminal": 3, "subagent": 8}
        name = random.choices(list(steps), list(steps.values()))[0]
        match name:
            case "ask":
                return [name, random.choice(ASKS if turn else ("ask",)), random.random() < 0.7]
            case "steps":
                return [name, random.randint(1, 6)]
            case "sleep":
                return [name, self._seconds()]
            case "raise":
                return [name, random.choice(FAILURES[:-1])]
            case "stop":
                return [name, random.choice(("user", "timeout", "tool", "tool"))]
            case "all":
                return [name, [self._plan(depth, 3, turn) for _ in range(random.randint(1, 3))]]
            case "terminal" | "native" | "subagent":
                return [name, random.random() < 0.4, self._plan(depth, 3, turn)]
            case "shield" | "limit":
                return [name, self._seconds(), self._plan(depth, 3, turn)]
            case "finally":
                return [name, self._plan(depth, 3, turn), self._seconds(), self._plan(depth, 2, turn)]
            case "swallow":
                return [name, random.randint(1, 3), self._plan(depth, 3, turn)]
            case "child":
                return [name, random.choice(("awaited", "shielded"))]
            case "tools":
                return [name, [self._tool(depth) for _ in range(random.randint(1, 3))]]
            case _:
                return [name]

    def _tool(self, depth: int) -> dict[str, Any]:
        random = self._random
        form = random.choice(TOOLS)
        asks = random.choice(("free", "asks", "asks", "asked"))
        threaded = form in ("plain", "pieces")
        return {
            "tool": f"{form}_{asks}",
            "plan": self.thread() if threaded else self._plan(depth, 3),
            "before": self._plan(1, 2) if asks == "asked" else [],
            "words": random.choice((None, None, "quick", "raises")),
        }

    def _seconds(self) -> float:
        return self._grace * self._random.choice((0.1, 0.5, 0.9, 1.0, 1.5, 2.5))
