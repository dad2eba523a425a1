"""A small agent with tools, whose next turn may know what a cancelled one has found; `acp-server serve` serves it.

edit            puts "2nd" in the place of "second" in notes.txt, once that is approved
search WORD     finds the word in one place, says so, and waits for the next one for ever
recall          what a model would be told, cancelled turns and what their tools had found included
forget          the same without cancelled turns, as it is if an author chooses nothing
"""

from collections.abc import AsyncIterator

import anyio

from acp_server import Agent, Approval, ToolContext, Turn
from acp_server.schema import Diff

agent = Agent("remembering", version="1")


async def what_will_change(call: ToolContext) -> Approval:
    path = f"{call.session.cwd}/notes.txt"
    old = await call.client.read_text_file(path)
    call.data = Diff(path=path, old_text=old, new_text=old.replace("second", "2nd"))
    return Approval("It writes numbers as figures, as you wished.", title="Change notes.txt", preview=call.data)


@agent.tool(kind="edit", title="Edit", approval=what_will_change, auto_approve=True)
async def edit(call: ToolContext) -> str:
    await call.client.write_text_file(call.data.path, call.data.new_text)
    return "Changed."


@agent.tool(kind="search", title="Search")
async def search(word: str, call: ToolContext) -> str:
    found = [f"{word} in books"]
    call.on_cancel = lambda: "Cancelled by the user. Partial results: " + ", ".join(found)
    await call.turn.say("Searching. ")
    await anyio.sleep_forever()
    return "all of it"


@agent.prompt
async def prompt(turn: Turn) -> AsyncIterator[str]:
    work, *rest = turn.text.split()
    match work:
        case "edit":
            yield (await turn.run_tool("edit")).status
        case "search":
            yield str((await turn.run_tool("search", {"word": rest[0]})).message)
        case "recall":
            yield "\n".join(message.text for message in turn.context(cancelled=True))
        case _:
            yield "\n".join(message.text for message in turn.context())
