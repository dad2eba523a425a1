"""What the calls of a model use in a turn, as they end (`Meter`): tokens, the room in the context, the cost.

Sizes and prices are those of genai-prices where it is installed, as it is with pydantic-ai. Numbers of servers are
bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from anyio import to_thread

from acp_server.errors import UsageError
from acp_server.session.turn import Turn

MOST: Final = 2**53 - 1
"""Tokens of one call: what every program that reads JSON has as a whole number."""

CURRENCY: Final = "USD"
"""Of the prices."""


class Tokens(NamedTuple):
    """Of one call, or of several. Input and output have those that were cached and thought in them."""

    input: int = 0
    output: int = 0
    thought: int = 0
    cached_read: int = 0
    cached_write: int = 0

    @classmethod
    def read(cls, *numbers: Any) -> Tokens:
        """From what a server says, which may be anything."""
        return cls(*(min(number, MOST) if type(number) is int and number > 0 else 0 for number in numbers))

    def beyond(self, other: Tokens) -> Tokens:
        """What these have more than the other ones."""
        return Tokens(*(max(0, mine - its) for mine, its in zip(self, other, strict=True)))

    def plus(self, other: Tokens) -> Tokens:
        """Both together."""
        return Tokens(*map(sum, zip(self, other, strict=True)))


class Meter:
    """That of one turn. `context_size`: of its models, if the author says it."""

    def __init__(self, turn: Turn, context_size: int | None = None) -> None:
        self._turn = turn
        self._size = context_size
        self._counted = Tokens()
        """Since a run has begun."""

    def begin(self) -> None:
        """A run begins, whose framework adds up what its calls use."""
        self._counted = Tokens()

    async def count(
        self,
        tokens: Tokens,
        model: Any,
        *,
        provider: Any = None,
        url: str | None = None,
        context_size: int | None = None,
    ) -> None:
        """A call has ended. `model`: its name. `provider`: its name, or rather the `url` of its API, which leaves no
        doubt whose prices hold. `context_size`: as the framework knows it."""
        if not any(tokens):
            # Not every server says it.
            return
        named = model if isinstance(model, str) else ""
        whose = provider if isinstance(provider, str) else None
        cost, size = await to_thread.run_sync(_look_up, tokens, named, whose, url, abandon_on_cancel=True)
        self._counted = self._counted.plus(tokens)
        self._add(tokens, cost, self._size or context_size or size)

    def end(self, total: Tokens) -> None:
        """The run is over, which has used so much; a call that was cut has not been counted yet."""
        rest = total.beyond(self._counted)
        if any(rest):
            self._add(rest, None, None)

    def _add(self, tokens: Tokens, cost: float | None, size: int | None) -> None:
        before = self._turn.session.record.cost
        if before is not None and before[1] != CURRENCY:
            # The author counts it.
            cost = None
        self._turn.add_usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            thought_tokens=tokens.thought or None,
            cached_read_tokens=tokens.cached_read or None,
            cached_write_tokens=tokens.cached_write or None,
            # Where it is not known how full it is, nothing is told.
            context_size=size if tokens.input else None,
            cost=cost,
        )


def checked_size(context_size: int | None) -> int | None:
    """The number of tokens that an author gives. Raises UsageError for anything but a number from 1 on, or None."""
    if context_size is None or (type(context_size) is int and 0 < context_size <= MOST):
        return context_size
    raise UsageError(f"context_size is a number of tokens, not {context_size!r}")


@cache
def _prices() -> Any:
    """The library, which is large, or None."""
    try:
        return import_module("genai_prices")
    except ImportError:
        return None


def _look_up(tokens: Tokens, model: str, provider: str | None, url: str | None) -> tuple[float | None, int | None]:
    """The cost of a call, and the size of the model's context, as far as they are known."""
    price = _price(tokens, model, {"provider_id": provider} if url is None else {"provider_api_url": url})
    return (None, None) if price is None else (float(price.total_price), price.model.context_window)


def _price(tokens: Tokens, model: str, whose: dict[str, str | None]) -> Any:
    """What the library says of a model, and of the cost of one call; None where it does not know it."""
    library = _prices()
    if library is None or not model or None in whose.values():
        return None
    used = library.Usage(
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_read_tokens=tokens.cached_read,
        cache_write_tokens=tokens.cached_write,
    )
    try:
        return library.calc_price(used, model, **whose)
    except (LookupError, ValueError, ArithmeticError):
        # A model or a provider without prices, or numbers of a server that cannot be.
        return None


def titles_of(names: Sequence[str]) -> list[str]:
    """What users call the models that are named as `PROVIDER:NAME`; the name itself, where that is not known or another
    one is called so."""
    titles = [_title_of(name) for name in names]
    return [title if titles.count(title) == 1 else name for name, title in zip(names, titles, strict=True)]


def _title_of(name: str) -> str:
    provider, colon, model = name.partition(":")
    price = _price(Tokens(), model, {"provider_id": provider}) if colon else None
    return name if price is None else str(price.model.name or name)
