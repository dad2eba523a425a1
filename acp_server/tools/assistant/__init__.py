"""What only `AssistantTool` needs.

That is a manifest, functions that are called by the names of their parameters, and the question for an approval as its
function returns it.
"""
