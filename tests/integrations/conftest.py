"""Keeps the frameworks from the network."""

import os

# The OpenAI Agents SDK starts a thread at the first run that sends traces to OpenAI. It reads this variable when the
# first run begins.
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
