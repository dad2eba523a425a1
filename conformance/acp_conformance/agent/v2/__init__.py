"""Judging agents of the draft of version 2 of the protocol: separate cases, run by the same machinery."""
