"""Judges clients that speak the draft of version 2 of the protocol."""
