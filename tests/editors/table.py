"""What users of each editor see, step by step, as the page of the documentation has it."""

from . import EDITORS
from .steps import AUTHOR, BUILT_IN

NO_KEY = "-"


def rows() -> list[list[str]]:
    """A row for each step, and one for the names."""
    kinds = list(EDITORS.values())
    steps = [*AUTHOR, *BUILT_IN]
    return [
        ["", *(kind.name for kind in kinds)],
        *([step, *(kind.shows.get(step, NO_KEY) for kind in kinds)] for step in steps),
    ]


def table() -> str:
    """In Markdown."""
    head, *rest = [f"| {' | '.join(row)} |" for row in rows()]
    return "\n".join([head, "| " + "--- | " * (len(EDITORS) + 1), *rest]).replace(" | \n", " |\n")
