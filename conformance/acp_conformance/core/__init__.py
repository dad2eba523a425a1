"""The shared part of both sides: the form of a rule, the data of a run, framing, processes, and the schema.

It knows neither agents nor clients, and shows nothing.
"""
