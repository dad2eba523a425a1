"""An agent that changes a file through the editor: it removes white space at the ends of lines, if the user allows it.

The prompt is the file, as an absolute path or relative to the session's folder. The editor's unsaved changes count, the
change is shown before it is made, and nothing is written without a yes.
"""

import os

from acp_server import Agent, CapabilityMissing, RpcError, Turn
from acp_server.schema import Diff, PermissionOption, ToolCall, ToolCallLocation, ToolCallProgress, ToolCallUpdate

agent = Agent("tidy", version="1.0")

OPTIONS = PermissionOption.yes_or_no("Tidy it", "Leave it")


@agent.prompt
async def tidy(turn: Turn):
    path = os.path.join(turn.session.cwd, turn.text.strip())
    try:
        old = await turn.client.read_text_file(path)
    except CapabilityMissing:
        yield "This editor has no files for me.\n"
        return
    except RpcError as error:
        yield f"The file cannot be read: {error.message}\n"
        return
    new = "\n".join(line.rstrip() for line in old.split("\n"))
    if new == old:
        yield "It is tidy already.\n"
        return

    call = f"tidy_{turn.id}"
    yield ToolCall(
        tool_call_id=call,
        title=f"Tidy {os.path.basename(path)}",
        kind="edit",
        content=[Diff(path=path, old_text=old, new_text=new)],
        locations=[ToolCallLocation(path=path)],
    )
    answer = await turn.client.request_permission(ToolCallUpdate(tool_call_id=call), OPTIONS)
    if not answer.allowed:
        yield ToolCallProgress(tool_call_id=call, status="failed")
        yield "I left it as it is.\n"
        return
    yield ToolCallProgress(tool_call_id=call, status="in_progress")
    try:
        await turn.client.write_text_file(path, new)
    except (CapabilityMissing, RpcError) as error:
        yield ToolCallProgress(tool_call_id=call, status="failed")
        yield f"The file cannot be written: {error.message if isinstance(error, RpcError) else error}\n"
        return
    yield ToolCallProgress(tool_call_id=call, status="completed")
    yield "Done.\n"


if __name__ == "__main__":
    agent.run()
