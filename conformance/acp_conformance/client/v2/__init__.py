"""Judging clients that speak version 2 of the protocol, a draft."""
