"""Imports what is deprecated inside of a dependency before a test would be blamed for it; shared fixtures."""

import warnings

from tests.client.processes import ear, spawn

__all__ = ["ear", "spawn"]

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import jsonrpcserver

assert jsonrpcserver
