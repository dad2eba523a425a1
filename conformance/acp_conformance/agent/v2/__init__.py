"""Judging agents of the draft of version 2 of the protocol: cases of their own, run by the same machinery."""
