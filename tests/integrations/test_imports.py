"""What an adapter is for is imported when it is used, and never with the package."""

import subprocess
import sys

FRAMEWORKS = ("langgraph", "langchain_core", "openai", "httpx", "mcp", "pydantic_ai", "agents", "anthropic")


def test_no_framework_is_loaded_with_the_package_or_with_the_adapters() -> None:
    program = (
        "import sys, acp_server, acp_server.agent.app\n"
        "import acp_server.integrations.langgraph, acp_server.integrations.pydantic_ai, acp_server.asgi\n"
        "import acp_server.integrations.openai_agents, acp_server.integrations.model\n"
        "import acp_server.workspace.model_agent\n"
        f"print([name for name in {FRAMEWORKS!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"
