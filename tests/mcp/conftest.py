"""The fixture of a listening port, which the tests of the client share."""

from tests.client.processes import ear

__all__ = ["ear"]
