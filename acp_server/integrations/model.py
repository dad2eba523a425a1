"""`find_model`: a model by its provider and its name, and in words what is missing for it (extra `model`)."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any, Final

from acp_server.errors import UsageError

_VARIABLE: Final = re.compile(r"`([A-Z][A-Z0-9_]+)`")
_PACKAGES: Final = re.compile(r"pydantic-ai-slim\[([a-z0-9-]+)\]")
_FORM: Final = "a model is named as PROVIDER:NAME, for example openai:gpt-5 or anthropic:claude-sonnet-5"

_CHAT: Final = {"openai": "openai-chat"}
"""Of `openai`, servers of other makers have the chat completions, and seldom more."""


def find_model(name: str, *, base_url: str | None = None) -> Any:
    """The model of pydantic-ai that is called `PROVIDER:NAME` there, with the key that is in the environment.

    `base_url`: of another server than the provider's own. With `openai` it may be any that is compatible, and needs no
    key. Nothing is sent. Raises UsageError if something is missing or not known, with words that say what to do.
    """
    try:
        models = import_module("pydantic_ai.models")
        errors = import_module("pydantic_ai.exceptions")
    except ImportError:
        raise UsageError("--model needs the extra model: pip install 'acp-server[model]'") from None
    provider, colon, rest = name.partition(":")
    if not (provider and colon and rest):
        raise UsageError(f"{name!r} is not the name of a model: {_FORM}")
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise UsageError(f"{base_url!r} is not a base URL: it begins with http:// or https://")
    try:
        if base_url is None:
            return models.infer_model(name)
        kind = import_module("pydantic_ai.providers").infer_provider_class(provider)

        def elsewhere(_name: str) -> Any:
            return kind(base_url=base_url)

        return models.infer_model(f"{_CHAT.get(provider, provider)}:{rest}", elsewhere)
    except ImportError as error:
        raise UsageError(_missing(provider, str(error))) from None
    except TypeError:
        raise UsageError(f"the provider {provider} has no base URL that can be set") from None
    except (errors.UserError, ValueError) as error:
        raise UsageError(_unusable(name, provider, str(error))) from None


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
