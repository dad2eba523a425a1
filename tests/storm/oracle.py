"""Whether a storm has broken a promise."""

from tests.storm import oracle_children, oracle_requests, oracle_turns, oracle_v2
from tests.storm.promise import PROMISES
from tests.storm.requests import Requests
from tests.storm.story import Story

__all__ = ["PROMISES", "broken", "oracle_children", "oracle_requests", "oracle_turns", "oracle_v2"]


def broken(story: Story) -> list[str]:
    """What the story shows of promises that were not kept."""
    requests = Requests(story)
    return [
        f"{name} ({reference}): {what}"
        for name, (holds, reference) in PROMISES.items()
        for what in holds(story, requests)
    ]
