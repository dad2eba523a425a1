"""Shared fixtures."""

from tests.client.processes import ear, spawn

__all__ = ["ear", "spawn"]
