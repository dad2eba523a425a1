"""Judges agents that speak the draft of version 2. The cases are separate, and run by the same code as those of version
1."""
