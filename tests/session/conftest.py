"""Shared fixtures."""

from tests.session.files import other, path, store

__all__ = ["other", "path", "store"]
