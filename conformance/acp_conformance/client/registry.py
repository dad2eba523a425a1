"""The cases for clients: the registry that `cases/` fills."""

from __future__ import annotations

from acp_conformance.core.case import Registry

client_cases = Registry("client")
"""The cases for clients."""

case = client_cases.case
"""Registers a case for clients; its argument is a `acp_conformance.client.subject.Client`."""
