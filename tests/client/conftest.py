"""Imports what is deprecated inside of a dependency before a test would be blamed for it."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import jsonrpcserver

assert jsonrpcserver
