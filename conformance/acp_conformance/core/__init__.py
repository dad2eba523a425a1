"""Code for judging both agents and clients: the form of a rule, the data of a run, framing, processes, and the schema.

This package depends on neither agents nor clients, and prints nothing.
"""
