"""Applications on the runtime: the command line, the HTTP facade, the built-in agent, tools with a manifest.

They are on the floor above the runtime: nothing below imports them.
"""
