"""Measures of speed and size, each taken beside the official SDKs in the same run.

Duty: start one agent after the other over raw pipes, give them the same work, and compare what it cost them.
`python -m benchmarks` prints the table and leaves with 1 when a goal is missed.

It does not test behaviour, it imports nothing of `acp_server` outside `agents/ours.py`, and its own framing
keeps the library under measurement out of the driver.

    clock.py      what a process has cost: CPU time, memory, the core it may use
    subject.py    one agent process at the other end of two pipes, and its JSON-RPC
    talk.py       what a client says to an agent and checks of its answers: the moves that workloads are written in
    workloads.py  the pieces of work: start, stream, pipeline, nest, hang and cancel
    figures.py    the figures: which workload, which unit, which goal
    growth.py     how the cost of ours grows with the amount of work: sessions, prompts, turns, depth, bytes, tools
    rounds.py     interleaved rounds, medians and ratios
    report.py     the tables and the JSON file
    plot.py       the same as SVG
    agents/       the same small agent on each SDK, and on none
"""
