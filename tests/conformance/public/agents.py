"""Which agents there are, and how each is told to ask a model on this machine, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class Public:
    """An agent that is published. In its environment and its files, `{model}` is the model's URL, `{home}` is HOME."""

    package: str
    version: str
    command: Sequence[str]
    """Below the folder that it is installed in."""
    env: Mapping[str, str]
    files: Mapping[str, object] = field(default_factory=dict)
    """Below HOME: text, or what is written as JSON."""
    registry: Literal["npm", "PyPI"] = "npm"
    """Where it is installed from: by npm, or by pip in an environment `env` of its own."""

    def settle(self, home: Path, model: str) -> Mapping[str, str]:
        """Write its files; the environment that it is to run in, besides that of the caller."""

        def filled(text: str) -> str:
            return text.replace("{model}", model).replace("{home}", str(home))

        for name, content in self.files.items():
            path = home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(filled(content if isinstance(content, str) else json.dumps(content)), "utf-8")
        return {"HOME": str(home), **{name: filled(value) for name, value in self.env.items()}}


AGENTS: Mapping[str, Public] = {
    "opencode": Public(
        "opencode-ai",
        "1.18.33",
        ["node_modules/.bin/opencode", "acp"],
        {
            **{f"XDG_{kind}_HOME": f"{{home}}/{kind.lower()}" for kind in ("DATA", "CONFIG", "CACHE", "STATE")},
            "OPENCODE_CONFIG": "{home}/opencode.json",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        },
        {
            "opencode.json": {
                "model": "local/test",
                "small_model": "local/test",
                "share": "disabled",
                "permission": {"edit": "ask", "bash": "ask"},
                "provider": {
                    "local": {
                        "npm": "@ai-sdk/openai-compatible",
                        "name": "Local",
                        "options": {"baseURL": "{model}/v1", "apiKey": "none"},
                        "models": {
                            "test": {"name": "Test", "tool_call": True, "limit": {"context": 100000, "output": 8000}}
                        },
                    }
                },
            }
        },
    ),
    "gemini-cli": Public(
        "@google/gemini-cli",
        "0.61.0",
        ["node_modules/.bin/gemini", "--acp"],
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": "{model}", "GEMINI_CLI_NO_RELAUNCH": "1"},
        {
            ".gemini/settings.json": {
                "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
                "privacy": {"usageStatisticsEnabled": False},
                "telemetry": {"enabled": False},
                "general": {"enableAutoUpdate": False},
                "model": {"name": "gemini-2.5-flash"},
            }
        },
    ),
    "codex-acp": Public(
        "@agentclientprotocol/codex-acp",
        "2.6.0",
        ["node_modules/.bin/codex-acp"],
        {"CODEX_HOME": "{home}/.codex"},
        {
            ".codex/config.toml": """\
model = "gpt-6.1-sol"
model_provider = "local"
check_for_update_on_startup = false
[model_providers.local]
name = "Local"
base_url = "{model}/v1"
wire_api = "responses"
"""
        },
    ),
    "qwen-code": Public(
        "@qwen-code/qwen-code",
        "0.24.4",
        ["node_modules/.bin/qwen", "--acp"],
        {
            "OPENAI_API_KEY": "none",
            "OPENAI_BASE_URL": "{model}/v1",
            "OPENAI_MODEL": "test",
            "QWEN_CODE_NO_RELAUNCH": "1",
        },
        {
            ".qwen/settings.json": {
                "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
                "privacy": {"usageStatisticsEnabled": False},
                "telemetry": {"enabled": False},
                "general": {"enableAutoUpdate": False},
                "model": {"name": "test"},
            }
        },
    ),
    "claude-agent-acp": Public(
        "@agentclientprotocol/claude-agent-acp",
        "0.101.0",
        ["node_modules/.bin/claude-agent-acp"],
        {
            "CLAUDE_CONFIG_DIR": "{home}/claude",
            "ANTHROPIC_API_KEY": "none",
            "ANTHROPIC_BASE_URL": "{model}",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            # Root, which the user of a container often is, is refused without it.
            "IS_SANDBOX": "1",
        },
    ),
    "pydantic-acp": Public(
        "pydantic-acp",
        "1.10.0",
        ["env/bin/python", str(Path(__file__).with_name("pydantic_agent.py"))],
        {},
        registry="PyPI",
    ),
}
