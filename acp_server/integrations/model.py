"""`find_model` returns a model by its provider and name, or raises an error that says what is missing (extra `model`).
`in_words` turns a model's failure into an error with a readable text.

The texts are this package's own, with the HTTP status and the provider's error code, because a server's text may repeat
the key or the prompt. Exceptions of libraries are recognized by their names and attributes, without importing the
libraries.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from http.client import responses
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from acp_server import InternalError, UsageError
from acp_server.integrations.model_server import bound_model, reading

if TYPE_CHECKING:
    from acp_server import OwnStopReason, Turn

logger: logging.Logger = logging.getLogger("acp_server.integrations")

_VARIABLE: Final = re.compile(r"`([A-Z][A-Z0-9_]+)`")
_PACKAGES: Final = re.compile(r"pydantic-ai-slim\[([a-z0-9-]+)\]")
_FORM: Final = "a model is named as PROVIDER:NAME, for example openai:gpt-5 or anthropic:claude-sonnet-5"

_CHAT: Final = {"openai": "openai-chat"}
"""`openai` means the chat completions API, because compatible servers seldom have the newer API."""


def find_model(name: str, *, base_url: str | None = None, reads: set[str] | None = None) -> Any:
    """Return the model that pydantic-ai calls `PROVIDER:NAME`, with the key from the environment.

    `base_url`: the URL of a server other than the provider's. With `openai` it may be any compatible server, and no key
    is needed. `reads`: a set to which the names of the environment variables that the provider reads are added,
    including the variable of its key. The server's responses are bounded. Nothing is sent. Raises UsageError if
    something is missing or unknown; the message says what to do.
    """
    try:
        models = import_module("pydantic_ai.models")
        errors = import_module("pydantic_ai.exceptions")
    except ImportError:
        raise UsageError("--model needs the extra model: pip install 'acp-server[model]'") from None
    provider, colon, rest = name.partition(":")
    if not (provider and colon and rest):
        raise UsageError(f"{name!r} is not a valid name of a model: {_FORM}")
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise UsageError(f"{base_url!r} is not a base URL, which must begin with http:// or https://")
    try:
        with reading(provider, set() if reads is None else reads):
            return bound_model(_found(models, provider, rest, base_url))
    except ImportError as error:
        raise UsageError(_missing(provider, str(error))) from None
    except TypeError:
        raise UsageError(f"--base-url has no effect on the provider {provider}") from None
    except (errors.UserError, ValueError) as error:
        raise UsageError(_unusable(name, provider, str(error))) from None


def _found(models: Any, provider: str, rest: str, base_url: str | None) -> Any:
    if base_url is None:
        return models.infer_model(f"{provider}:{rest}")
    kind = import_module("pydantic_ai.providers").infer_provider_class(provider)

    def elsewhere(_name: str) -> Any:
        return kind(base_url=base_url)

    return models.infer_model(f"{_CHAT.get(provider, provider)}:{rest}", elsewhere)


def _missing(provider: str, text: str) -> str:
    found = _PACKAGES.search(text)
    packages = found[0] if found else "pydantic-ai-slim"
    return f"the provider {provider} needs more than the extra model: pip install '{packages}'"


def _unusable(name: str, provider: str, text: str) -> str:
    variable = next((found for found in _VARIABLE.findall(text) if found not in os.environ), None)
    if variable is None:
        return f"there is no model {name!r}: {_FORM}"
    if variable.endswith("BASE_URL"):
        return f"the provider {provider} needs --base-url, or {variable} in the environment"
    return f"the provider {provider} needs a key: set {variable} in the environment"


_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_WORDS: Final = {
    # Adapters end a turn with a stop reason for these two; code of an author that only uses `in_words` gets the words.
    "ContentFilterError": "The model's server has withheld the answer because of its content",
    "OutputTokenLimitExceeded": "The answer is longer than the model may say at once",
    "ModelContextWindowExceededError": "The conversation is too long for the model",
    "ModelQuotaExceededError": "The account at the model's server has no credit left",
    "ModelRateLimitError": "The model's server takes no more requests for now; try again later",
    "ModelAuthenticationError": "The model's server does not accept the key",
    "ModelNotFoundError": "The model's server does not know this model",
    "ModelUnavailableError": "The model's server is overloaded; try again later",
    "ModelServerError": "The model's server has failed; try again later",
    "ModelTimeoutError": "The model's server did not answer in time",
    "ModelRequestTimeout": "The model's server did not answer in time",
    "ModelConnectionError": "The model's server cannot be reached, or the connection broke off",
    "ModelRequestRejectedError": "The model's server refuses the request",
    "UnexpectedModelBehavior": "The model has answered in a way that cannot be used",
    "ModelAPIError": "The model's server has failed",
    # Exceptions of openai and anthropic that other libraries pass on.
    "AuthenticationError": "The model's server does not accept the key",
    "PermissionDeniedError": "The model's server does not permit this key",
    "NotFoundError": "The model's server does not know this model",
    "RateLimitError": "The model's server takes no more requests for now; try again later",
    "InternalServerError": "The model's server has failed; try again later",
    "APITimeoutError": "The model's server did not answer in time",
    "APIConnectionError": "The model's server cannot be reached, or the connection broke off",
    "APIStatusError": "The model's server refuses the request",
    "APIError": "The model's server has failed",
    # Exceptions of the HTTP libraries when a stream breaks.
    "TimeoutException": "The model's server did not answer in time",
    "TransportError": "The model's server cannot be reached, or the connection broke off",
    "ModelBehaviorError": "The model has answered in a way that cannot be used",
}
"""The text for each exception, by the exception's class name. Subclasses come before their base classes."""

_WITHHELD: Final = "The model's server has withheld the answer because of its content."
_TOO_LONG: Final = "The answer is longer than the model may say at once."

_ENDS: Final[dict[str, tuple[OwnStopReason, str]]] = {
    "InputGuardrailTripwireTriggered": ("refusal", "A guardrail of the agent does not let this prompt through."),
    "OutputGuardrailTripwireTriggered": ("refusal", "A guardrail of the agent does not let its answer through."),
    "ToolInputGuardrailTripwireTriggered": ("refusal", "A guardrail of the agent does not let a tool call through."),
    "ToolOutputGuardrailTripwireTriggered": ("refusal", "A guardrail of the agent does not let a result through."),
    "ModelRefusalError": ("refusal", "The model refuses to answer."),
    "ContentFilterError": ("refusal", _WITHHELD),
    "ContentFilterFinishReasonError": ("refusal", _WITHHELD),
    "OutputTokenLimitExceeded": ("max_tokens", _TOO_LONG),
    "LengthFinishReasonError": ("max_tokens", _TOO_LONG),
    "MaxTurnsExceeded": ("max_turn_requests", "The limit of model requests is reached; send a message to go on."),
    "GraphRecursionError": ("max_turn_requests", "The limit of steps is reached; send a message to go on."),
    "UsageLimitExceeded": ("max_turn_requests", "The turn has reached the limit of what it may use."),
}
"""For frameworks' exceptions that end a run by design: the stop reason, and the text for the user."""

_FINISHED: Final[dict[str, tuple[OwnStopReason, str]]] = {
    "content_filter": ("refusal", _WITHHELD),
    "content_policy_violation": ("refusal", _WITHHELD),
    "refusal": ("refusal", _ENDS["ModelRefusalError"][1]),
    "length": ("max_tokens", _TOO_LONG),
    "max_tokens": ("max_tokens", _TOO_LONG),
}
"""The stop reason and the text for the reasons that models' servers give."""

_LIBRARIES: Final = {"pydantic_ai", "openai", "anthropic", "agents", "langgraph", "httpx", "httpx2"}


@contextmanager
def in_words() -> Generator[None]:
    """Replace an exception of a model or its server by an InternalError with a text for the user."""
    try:
        yield
    except Exception as error:
        if (told := _told(error)) is not None:
            raise told from error
        raise


@asynccontextmanager
async def ending(turn: Turn) -> AsyncGenerator[None]:
    """Do the same as `in_words`. If a run ends by design, also end the turn with a sentence for the user."""
    try:
        with in_words():
            yield
    except Exception as error:
        if not await stopped(turn, error.__cause__ if isinstance(error, InternalError) else error):
            if isinstance(error, InternalError) and not turn.is_cancelled:
                # Some clients do not show the message of an error.
                await _say(turn, f"{error.message}\n")
            raise


async def stopped(turn: Turn, error: BaseException | None) -> bool:
    """Return whether this exception ends a run by design. If so, the turn's stop reason is set and the user gets a
    sentence."""
    kinds = _kinds(error)
    end = next((end for name, end in _ENDS.items() if name in kinds), None)
    if end is None:
        return kinds != set() and await finished(turn, getattr(error, "code", None))
    reason, words = end
    if "UsageLimitExceeded" in kinds and "tokens" in str(error):
        reason = "max_tokens"
    await _end(turn, reason, words)
    return True


async def finished(turn: Turn, why: Any) -> bool:
    """Return whether a model's answer has ended early. `why`: the reason that its server gives."""
    end = _FINISHED.get(why) if isinstance(why, str) else None
    if end is not None:
        await _end(turn, *end)
    return end is not None


async def _end(turn: Turn, reason: OwnStopReason, words: str) -> None:
    turn.stop_reason = reason
    await _say(turn, words)


async def _say(turn: Turn, words: str) -> None:
    begun = any(message.role == "assistant" and message.text for message in turn.record.messages())
    await turn.say(f"\n\n{words}" if begun else words)


def _kinds(error: BaseException | None) -> set[str]:
    """Return the names of the error's classes that belong to one of the libraries."""
    return {kind.__name__ for kind in type(error).__mro__ if kind.__module__.partition(".")[0] in _LIBRARIES}


def _told(error: Exception) -> InternalError | None:
    kinds = _kinds(error)
    words = next((words for name, words in _WORDS.items() if name in kinds), None)
    if words is None:
        return None
    details = [str(getattr(error, "model_name", "")), *_reasons(error)]
    told = ", ".join(detail for detail in details if detail)
    logger.warning("%s: %s (%s)", type(error).__name__, words, told)
    return InternalError(f"{words} ({told})." if told else f"{words}.")


def _reasons(error: Any) -> list[str]:
    status = getattr(error, "status_code", None)
    reasons: list[str] = []
    if isinstance(status, int):
        reasons.append(f"HTTP {status} {responses.get(status, '')}".rstrip())
    code = getattr(error, "provider_error_code", None) or getattr(error, "code", None)
    if isinstance(code, str) and _CODE.fullmatch(code):
        reasons.append(code)
    return reasons


__all__ = ["find_model", "in_words"]
