"""Runs the agent that the command line names: `turns/late-chunk` is the class `LateChunk` of `turns`."""

import sys
from importlib import import_module

from clean import Clean


def find(name: str) -> type[Clean]:
    group, _, words = name.partition("/")
    module = import_module(group.replace("-", "_"))
    return getattr(module, "".join(word.capitalize() for word in words.split("-")))


agent = find(sys.argv[1]) if len(sys.argv) > 1 else Clean
agent().serve()
