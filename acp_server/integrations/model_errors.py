"""What went wrong with a model, in words for its user.

They are our own words, the HTTP status and the provider's code for the error: what a server says may repeat the key or
the prompt. It reads the exceptions of libraries by their names and attributes, and imports none of them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from contextlib import contextmanager
from http.client import responses
from typing import Any, Final

from acp_server.errors import InternalError

logger = logging.getLogger("acp_server.integrations")

_CODE: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")

_WORDS: Final = {
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
    "ContentFilterError": "The model's server has withheld the answer, for what is in it",
    "OutputTokenLimitExceeded": "The answer is longer than the model may say at once",
    "UnexpectedModelBehavior": "The model has answered in a way that cannot be used",
    "ModelAPIError": "The model's server has failed",
    # Those of openai and anthropic, which other libraries let through.
    "AuthenticationError": "The model's server does not accept the key",
    "PermissionDeniedError": "The model's server does not let this key use it",
    "NotFoundError": "The model's server does not know this model",
    "RateLimitError": "The model's server takes no more requests for now; try again later",
    "InternalServerError": "The model's server has failed; try again later",
    "APITimeoutError": "The model's server did not answer in time",
    "APIConnectionError": "The model's server cannot be reached, or the connection broke off",
    "APIStatusError": "The model's server refuses the request",
    "APIError": "The model's server has failed",
    # What a stream that breaks off raises from below them.
    "TimeoutException": "The model's server did not answer in time",
    "TransportError": "The model's server cannot be reached, or the connection broke off",
    "ModelBehaviorError": "The model has answered in a way that cannot be used",
}
"""By the names of the libraries' exceptions, the special ones before those that they are kinds of."""

_LIBRARIES: Final = {"pydantic_ai", "openai", "anthropic", "agents", "httpx", "httpx2"}


@contextmanager
def in_words() -> Generator[None]:
    """Raise for the failure of a model, or of its server, an InternalError with words for the user instead."""
    try:
        yield
    except Exception as error:
        if (told := _told(error)) is not None:
            raise told from error
        raise


def _told(error: Exception) -> InternalError | None:
    kinds = {kind.__name__ for kind in type(error).__mro__ if kind.__module__.partition(".")[0] in _LIBRARIES}
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
