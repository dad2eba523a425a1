"""Tools: what an agent can do for a model, and one call of it from the question for approval to its last status."""
