"""An MCP server of the official package, as a program: it adds up."""

CALC = """
from mcp.server.mcpserver import MCPServer

server = MCPServer("calc", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b


server.run()
"""
