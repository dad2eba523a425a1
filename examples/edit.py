"""An agent that renames something in a file: the prompt is the file, the old name and the new one.

The user sees the change before it is made, and may allow it once or for the session. Nothing is written without a yes,
and unsaved text in the editor is not overwritten.
"""

import re

from acp_server import Agent, Approval, ToolContext, ToolFailed, Turn
from acp_server.schema import Diff

agent = Agent("renamer", version="1.0")


async def what_will_change(path: str, old: str, new: str, call: ToolContext) -> Approval:
    """The question before the tool runs. It changes nothing."""
    text = await call.editor.get_file_content(path)
    if text is None:
        raise ToolFailed(f"There is no file {path}.")
    changed, times = re.subn(rf"\b{re.escape(old)}\b", lambda _: new, text)
    if not times:
        raise ToolFailed(f"There is no {old} in {path}.")
    call.data = Diff(path=call.editor.absolute(path), old_text=text, new_text=changed)
    call.locate(call.data.path)
    return Approval(f"{times} times in {path}.", preview=call.data, primary="Rename", secondary="Leave it")


def title(path: str, old: str, new: str) -> str:
    return f"Rename {old} to {new}"


@agent.tool(kind="edit", title=title, approval=what_will_change, needs_editor=True)
async def rename(path: str, old: str, new: str, call: ToolContext) -> str:
    "Rename something in a file."
    if await call.editor.get_file_content(path) != call.data.old_text:
        raise ToolFailed(f"{path} was changed meanwhile, so I left it as it is.")
    call.on_cancel = lambda: f"The editor may have changed {path} already."
    await call.editor.write_to_file(path, call.data.new_text)
    return "Renamed."


@agent.prompt
async def answer(turn: Turn):
    match turn.text.split():
        case [path, old, new]:
            result = await turn.run_tool(rename, {"path": path, "old": old, "new": new})
            yield f"{result.message or result.status}\n"
        case _:
            yield "Tell me the file, the old name and the new one.\n"


if __name__ == "__main__":
    agent.run()
