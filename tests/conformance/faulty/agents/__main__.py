"""Runs the agent that the command line names: `turns/late-chunk` is the class `LateChunk` of `turns`. Behind it may
stand how many seconds each answer takes."""

import sys
import time
from importlib import import_module

from clean import Clean
from rpc import Json, Request


def find(name: str) -> type[Clean]:
    group, _, words = name.partition("/")
    module = import_module(group.replace("-", "_"))
    return getattr(module, "".join(word.capitalize() for word in words.split("-")))


def slowed(kind: type[Clean], seconds: float) -> type[Clean]:
    class Slow(kind):
        def answer(self, request: Request, message: Json) -> None:
            time.sleep(seconds)
            super().answer(request, message)

    return Slow


agent = find(sys.argv[1]) if len(sys.argv) > 1 else Clean
if len(sys.argv) > 2:
    agent = slowed(agent, float(sys.argv[2]))
agent().serve()
