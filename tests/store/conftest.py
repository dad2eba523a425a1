"""Shared fixtures."""

from tests.store.files import other, path, store

__all__ = ["other", "path", "store"]
