"""A model by its name, and what is said if something is missing for it."""

import sys
from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the extra model is not installed: make test-integrations")

from acp_server import UsageError
from acp_server.integrations.model import find_model

KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_BASE_URL", "OLLAMA_API_KEY", "OPENAI_BASE_URL")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for key in KEYS:
        monkeypatch.delenv(key, raising=False)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_model_gets_the_key_of_its_provider_from_the_environment(
    provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "a-key")
    model = find_model(f"{provider}:a-model")
    assert (model.model_name, model.client.api_key) == ("a-model", "a-key")
    assert model.base_url.startswith(f"https://api.{provider}.com")


@pytest.mark.parametrize("provider", ["openai", "ollama", "vllm"])
def test_a_server_of_ones_own_needs_no_key(provider: str) -> None:
    model = find_model(f"{provider}:qwen3:8b", base_url="http://localhost:11434/v1")
    assert (model.model_name, model.base_url) == ("qwen3:8b", "http://localhost:11434/v1/")


def test_a_server_that_speaks_as_openai_does_is_asked_for_chat_completions() -> None:
    model = find_model("openai:x", base_url="http://localhost:1/v1")
    assert type(model).__name__ == "OpenAIChatModel"


@pytest.mark.parametrize(
    ("name", "base_url", "words"),
    [
        ("openai:gpt-5", None, "the provider openai needs a key: set OPENAI_API_KEY in the environment"),
        ("anthropic:x", None, "the provider anthropic needs a key: set ANTHROPIC_API_KEY in the environment"),
        ("anthropic:x", "http://localhost:1", "needs a key: set ANTHROPIC_API_KEY"),
        ("ollama:x", None, "the provider ollama needs --base-url, or OLLAMA_BASE_URL in the environment"),
        ("google:x", None, r"pip install 'pydantic-ai-slim\[google\]'"),
        ("deepseek:x", "http://localhost:1", "--base-url has no effect on the provider deepseek"),
        ("nonsense:x", None, "there is no model 'nonsense:x': a model is named as PROVIDER:NAME"),
        ("nonsense:x", "http://localhost:1", "there is no model 'nonsense:x'"),
        ("gpt-5", None, "'gpt-5' is not a valid name of a model"),
        ("openai:", None, "'openai:' is not a valid name of a model"),
        ("openai:x", "localhost:1", "'localhost:1' is not a base URL"),
    ],
)
def test_what_is_missing_is_said_in_one_sentence(name: str, base_url: str | None, words: str) -> None:
    with pytest.raises(UsageError, match=words) as raised:
        find_model(name, base_url=base_url)
    assert "\n" not in str(raised.value)


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    missing: Any = None
    monkeypatch.setitem(sys.modules, "pydantic_ai.models", missing)
    with pytest.raises(UsageError, match=r"pip install 'acp-server\[model\]'"):
        find_model("openai:x")
