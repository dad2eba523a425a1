"""Agents of version 2 that break one rule each, named in the words of what they do wrong.

`CAUGHT_BY` of a module has them by the case that accuses them.
"""
