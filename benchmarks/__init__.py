"""Benchmarks of speed and size, each compared with the official SDKs in the same run.

Duty: start one agent after the other over raw pipes, give them the same work, and compare the cost.
`python -m benchmarks` prints the table and exits with 1 when a goal is missed.

It does not test behaviour, it imports nothing of `acp_server` outside `agents/ours.py`, and its own framing
keeps the measured library out of the driver.

    clock.py      the cost of a process: CPU time, memory; the core it may use
    subject.py    one agent process at the other end of two pipes, and its JSON-RPC
    talk.py       a client's messages to an agent, and the checks of its responses, for workloads
    workloads.py  the pieces of work: start, stream, pipeline, nest, hang and cancel
    figures.py    the figures: the workload, the unit and the goal of each
    growth.py     how our cost grows with the amount of work: sessions, prompts, turns, depth, bytes, tools
    rounds.py     interleaved rounds, medians and ratios
    report.py     the tables and the JSON file
    plot.py       the same as SVG
    agents/       the same small agent on each SDK, and on none
"""
