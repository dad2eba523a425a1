"""What an adapter is for is imported when it is used, and never with the package."""

import subprocess
import sys

FRAMEWORKS = (
    "langgraph",
    "langchain_core",
    "openai",
    "httpx",
    "mcp",
    "mcp_types",
    "httpx2",
    "pydantic_ai",
    "agents",
    "anthropic",
)


def test_no_framework_is_loaded_with_the_package_or_with_the_adapters() -> None:
    program = (
        "import sys, acp_server, acp_server.agent.app\n"
        "import acp_server.integrations.langgraph, acp_server.integrations.pydantic_ai, acp_server.remote\n"
        "import acp_server.integrations.openai_agents, acp_server.integrations.model\n"
        "import acp_server.apps.coder.model_agent, acp_server.mcp.servers, acp_server.integrations.messages\n"
        f"print([name for name in {FRAMEWORKS!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"


def test_of_others_only_what_every_agent_needs_is_loaded_with_one() -> None:
    """Every module at the top that is not Python's own: what an extra is for would be one more."""
    program = (
        "import sys, acp_server\n"
        "known = set(sys.stdlib_module_names) | set(sys.argv[1:]) | {'__main__'}\n"
        "def others(): return sorted({name.partition('.')[0] for name in sys.modules} - known)\n"
        "print(others())\n"
        "acp_server.Agent('a', mcp=['http'])\n"
        "print(others())"
    )
    # What the environment itself brings in, for editable packages for example.
    bare = "import sys; print(*{name.partition('.')[0] for name in sys.modules})"
    there = subprocess.run([sys.executable, "-c", bare], capture_output=True, text=True, check=True, timeout=30)
    done = subprocess.run(
        [sys.executable, "-c", program, *there.stdout.split()], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.splitlines() == ["['acp_server']", "['acp_server', 'anyio', 'orjson', 'sniffio']"]
