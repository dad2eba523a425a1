"""How many storms there are, and how one of them is let loose again.

make storm ARGS="--seeds 5000"                  many more
make storm ARGS="--backend trio --seed 4711"    this one, with all that happened
make storm ARGS="--process --seeds 200"         against agents in processes of their own
make storm ARGS="--transport ws --seeds 200"    against agents behind HTTP (http) or WebSocket (ws)
make storm ARGS="--protocol 2"                  with clients that speak version 2
"""

import argparse
import logging
import os
import signal
import sys

SEEDS = int(os.environ.get("STORM_SEEDS", "100"))
"""How many storms there are for each backend."""
FIRST_SEED = int(os.environ.get("STORM_FIRST_SEED", "0"))


def replay(backend: str, seed: int, process: bool = False, version: int = 1, transport: str | None = None) -> str:
    """The command that repeats one storm."""
    more = "--process " * process + (f"--transport {transport} " if transport else "")
    more += f"--protocol {version} " * (version != 1)
    return f'make storm ARGS="{more}--backend {backend} --seed {seed}"'


def main() -> int:
    """Let storms loose, and tell of those that break a promise."""
    from tests.storm.memory import Storm
    from tests.storm.oracle import broken
    from tests.storm.process import ProcessStorm

    parser = argparse.ArgumentParser(prog="storm")
    parser.add_argument("--backend", choices=["asyncio", "trio"], action="append")
    parser.add_argument("--process", action="store_true", help="agents in processes of their own")
    parser.add_argument("--transport", choices=["http", "ws"], help="the same behind a server and a client")
    parser.add_argument("--protocol", type=int, choices=[1, 2], default=1, help="the version that is spoken")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="just this one, with all that happened")
    options = parser.parse_args()
    backends = options.backend or ["asyncio", "trio"]
    alone = options.seed is not None
    seeds = [options.seed] if alone else range(options.first, options.first + options.seeds)
    logging.basicConfig(level=logging.DEBUG if alone else logging.CRITICAL + 1, format="%(levelname)s %(message)s")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # In the background of a script it is ignored, which the agents would inherit.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    bad = 0
    started = os.times()
    for seed in seeds:
        for backend in backends:
            try:
                storm: Storm | ProcessStorm = Storm(backend, seed, options.protocol)
                if options.process or options.transport:
                    storm = ProcessStorm(backend, seed, options.protocol, options.transport)
                story = storm.run()
                found = broken(story)
            except Exception as error:
                if alone:
                    raise
                found = [f"{type(error).__name__}: {error}"]
            else:
                if alone:
                    sys.stdout.writelines(f"{note}\n" for note in story.journal.notes)
                    sys.stdout.write(storm.stderr)
            if found:
                bad += 1
                sys.stdout.write(
                    "\n".join(
                        [
                            f"replay: {replay(backend, seed, options.process, options.protocol, options.transport)}",
                            *found,
                            "",
                        ]
                    )
                )
                sys.stdout.flush()
    cpu = sum(os.times()[:4]) - sum(started[:4])
    sys.stdout.write(f"{len(seeds) * len(backends)} storms, {bad} bad, {cpu:.1f} s of CPU\n")
    return 1 if bad else 0
