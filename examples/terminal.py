"""An agent that runs a command in the editor's terminal. The prompt is the command.

When the user cancels, the output until then stays visible, and the command is killed and its terminal released: the
first takes a few lines here, the second none.
"""

import shlex

from acp_server import Agent, CapabilityMissing, RpcError, Turn, grace
from acp_server.schema import Content, Terminal, TextContent, ToolCall, ToolCallContent, ToolCallProgress

agent = Agent("runner", version="1.0")


@agent.prompt
async def run(turn: Turn):
    try:
        command, *args = shlex.split(turn.text)
    except ValueError:
        yield "That is not a command.\n"
        return
    try:
        created = await turn.client.create_terminal(command, args, cwd=turn.session.cwd)
    except CapabilityMissing:
        yield "This editor has no terminals for me.\n"
        return
    except RpcError as error:
        yield f"There is no terminal for it. {error.message}\n"
        return

    call = f"run_{turn.id}"
    async with created as terminal:
        shown: list[ToolCallContent] = [Terminal(terminal_id=terminal.id)]
        yield ToolCall(tool_call_id=call, title=f"`{turn.text}`", kind="execute", status="in_progress", content=shown)
        status = "failed"
        try:
            ended = await terminal.wait_for_exit()
            status = "completed" if ended.exit_code == 0 else "failed"
        finally:
            # Also when the turn is cancelled: the output would be lost with the terminal.
            with grace(1.0):
                printed = (await terminal.output()).output
                block = Content(content=TextContent(text=printed))
                await turn.update(ToolCallProgress(tool_call_id=call, status=status, content=[*shown, block]))
    yield f"It ended with {ended.signal or ended.exit_code}.\n"


if __name__ == "__main__":
    agent.run()
