"""How many storms there are, and how one of them is let loose again.

make storm ARGS="--seeds 5000"                  many more
make storm ARGS="--backend trio --seed 4711"    this one, with all that happened
"""

import argparse
import logging
import os
import sys
import time

SEEDS = int(os.environ.get("STORM_SEEDS", "250"))
"""How many storms there are for each backend."""
FIRST_SEED = int(os.environ.get("STORM_FIRST_SEED", "0"))


def replay(backend: str, seed: int) -> str:
    """The command that repeats one storm."""
    return f'make storm ARGS="--backend {backend} --seed {seed}"'


def main() -> int:
    """Let storms loose, and tell of those that break a promise."""
    from tests.storm.memory import Storm
    from tests.storm.oracle import broken

    parser = argparse.ArgumentParser(prog="storm")
    parser.add_argument("--backend", choices=["asyncio", "trio"], action="append")
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="just this one, with all that happened")
    options = parser.parse_args()
    backends = options.backend or ["asyncio", "trio"]
    alone = options.seed is not None
    seeds = [options.seed] if alone else range(options.first, options.first + options.seeds)
    logging.basicConfig(level=logging.DEBUG if alone else logging.CRITICAL + 1, format="%(levelname)s %(message)s")
    bad = 0
    started = time.process_time()
    for seed in seeds:
        for backend in backends:
            try:
                story = Storm(backend, seed).run()
                found = broken(story)
            except Exception as error:
                if alone:
                    raise
                found = [f"{type(error).__name__}: {error}"]
            else:
                if alone:
                    sys.stdout.writelines(f"{note}\n" for note in story.journal.notes)
            if found:
                bad += 1
                sys.stdout.write("\n".join([f"replay: {replay(backend, seed)}", *found, ""]))
                sys.stdout.flush()
    sys.stdout.write(f"{len(seeds) * len(backends)} storms, {bad} bad, {time.process_time() - started:.1f} s of CPU\n")
    return 1 if bad else 0
