"""Runs the client that the command line names: `permission/invents-an-option` is `InventsAnOption` of `permission`."""

import sys
from importlib import import_module

from clean import Client, main


def find(name: str) -> type[Client]:
    """The class of a name; `clean` is the one without a fault."""
    group, _, words = name.partition("/")
    if not words:
        return Client
    return getattr(import_module(group), "".join(word.capitalize() for word in words.split("-")))


main(find(sys.argv[1]), sys.argv[2:])
