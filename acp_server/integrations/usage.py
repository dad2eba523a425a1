"""Counts the usage of a turn's model calls as they end (`Meter`): tokens, context window, cost.

Context sizes and prices come from genai-prices if it is installed. It is always installed with pydantic-ai. Numbers
from servers are bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from anyio import to_thread

from acp_server import Turn, UsageError

MOST: Final = 2**53 - 1
"""The most tokens of one call: the largest whole number that every JSON reader supports."""

CURRENCY: Final = "USD"
"""The currency of the prices."""


class Tokens(NamedTuple):
    """The tokens of one or several calls. Input and output include cached and thought tokens."""

    input: int = 0
    output: int = 0
    thought: int = 0
    cached_read: int = 0
    cached_write: int = 0

    @classmethod
    def read(cls, *numbers: Any) -> Tokens:
        """Return tokens for a server's numbers, which may be any values."""
        return cls(*(min(number, MOST) if type(number) is int and number > 0 else 0 for number in numbers))

    def beyond(self, other: Tokens) -> Tokens:
        """Return the tokens by which these exceed `other`."""
        return Tokens(*(max(0, mine - its) for mine, its in zip(self, other, strict=True)))

    def plus(self, other: Tokens) -> Tokens:
        """Return the sum of these tokens and `other`."""
        return Tokens(*map(sum, zip(self, other, strict=True)))


class Meter:
    """Counts the usage of one turn. `context_size`: the context size of the turn's models, if the author gives it."""

    def __init__(self, turn: Turn, context_size: int | None = None) -> None:
        self._turn = turn
        self._size = context_size
        self._counted = Tokens()
        """The tokens since the run began."""

    def begin(self) -> None:
        """Start counting a run. The run's framework adds up the usage of its calls."""
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
        """Count a call that has ended. `model`: the model's name. `provider`: the provider's name. If the `url` of its
        API is given, it is used instead, since it identifies the prices reliably. `context_size`: the context size from
        the framework."""
        if not any(tokens):
            # Not every server reports usage.
            return
        named = model if isinstance(model, str) else ""
        whose = provider if isinstance(provider, str) else None
        cost, size = await to_thread.run_sync(_look_up, tokens, named, whose, url, abandon_on_cancel=True)
        self._counted = self._counted.plus(tokens)
        self._add(tokens, cost, self._size or context_size or size)

    def end(self, total: Tokens) -> None:
        """Count the rest of a run that has ended with this total usage. A call that was cancelled has not been counted
        yet."""
        rest = total.beyond(self._counted)
        if any(rest):
            self._add(rest, None, None)

    def _add(self, tokens: Tokens, cost: float | None, size: int | None) -> None:
        before = self._turn.session.record.cost
        if before is not None and before[1] != CURRENCY:
            # The author counts the cost.
            cost = None
        self._turn.add_usage(
            input_tokens=tokens.input,
            output_tokens=tokens.output,
            thought_tokens=tokens.thought or None,
            cached_read_tokens=tokens.cached_read or None,
            cached_write_tokens=tokens.cached_write or None,
            # Without the number of input tokens the context's usage is unknown.
            context_size=size if tokens.input else None,
            cost=cost,
        )


def checked_size(context_size: int | None) -> int | None:
    """Return the number of tokens that an author gives. Raises UsageError unless it is None or a positive number."""
    if context_size is None or (type(context_size) is int and 0 < context_size <= MOST):
        return context_size
    raise UsageError(f"context_size must be a number of tokens, not {context_size!r}")


@cache
def _prices() -> Any:
    """Return the library genai-prices, whose import takes long; None if it is not installed."""
    try:
        return import_module("genai_prices")
    except ImportError:
        return None


def _look_up(tokens: Tokens, model: str, provider: str | None, url: str | None) -> tuple[float | None, int | None]:
    """Return the cost of a call and the model's context size, as far as they are known."""
    price = _price(tokens, model, {"provider_id": provider} if url is None else {"provider_api_url": url})
    return (None, None) if price is None else (float(price.total_price), price.model.context_window)


def _price(tokens: Tokens, model: str, whose: dict[str, str | None]) -> Any:
    """Return the library's price of a call with its model; None if the library does not know the model."""
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
        # A model or provider without prices, or implausible numbers from a server.
        return None


def titles_of(names: Sequence[str]) -> list[str]:
    """Return the display names of models named `PROVIDER:NAME`. If a display name is unknown or not unique, the model's
    name is returned instead."""
    titles = [_title_of(name) for name in names]
    return [title if titles.count(title) == 1 else name for name, title in zip(names, titles, strict=True)]


def _title_of(name: str) -> str:
    provider, colon, model = name.partition(":")
    price = _price(Tokens(), model, {"provider_id": provider}) if colon else None
    return name if price is None else str(price.model.name or name)
