"""What both judges share: how a rule is written down, the data of a run, framing, processes, and the schema.

It knows neither agents nor clients, and shows nothing.
"""
