"""The agent of an author that the editors drive: it thinks, streams, shows a diff, asks, waits and fails on demand."""

import anyio

from acp_server import Agent, Approval, ToolContext, ToolFailed, Turn
from acp_server.schema import (
    Diff,
    PlanEntry,
    SessionConfigBoolean,
    SessionConfigSelect,
    SessionConfigSelectOption,
    SessionMode,
)
from acp_server.tools.editor import Editor

agent = Agent("author", version="1.0")

VOICES = [SessionConfigSelectOption(value=voice, name=f"The {voice} voice") for voice in ("low", "high")]
agent.modes(SessionMode(id="plain", name="Plain mode"), SessionMode(id="loud", name="Loud mode"))
agent.config_options(
    SessionConfigSelect(id="voice", name="Voice", current_value="low", options=VOICES),
    SessionConfigBoolean(id="brief", name="Brief", current_value=False),
)


async def what_will_change(old: str, new: str, call: ToolContext) -> Approval:
    """The question, with what will be written."""
    notes = anyio.Path(call.session.cwd) / "notes.txt"
    editor = Editor.of(call.session)
    text = await editor.get_file_content(str(notes)) if editor else await notes.read_text("utf-8")
    if text is None or old not in text:
        raise ToolFailed(f"There is no {old} in {notes.name}.")
    call.data = Diff(path=str(notes), old_text=text, new_text=text.replace(old, new))
    call.locate(call.data.path)
    return Approval("May I change the notes?", preview=call.data)


@agent.tool(kind="edit", title=lambda old, new: f"Change {old} to {new}", approval=what_will_change)
async def change(old: str, new: str, call: ToolContext) -> str:
    "Change the notes."
    if editor := Editor.of(call.session):
        await editor.write_to_file(call.data.path, call.data.new_text)
    else:
        await anyio.Path(call.data.path).write_text(call.data.new_text, "utf-8")
    return "The notes are changed."


@agent.tool(kind="execute", title="Wait for good")
async def wait(call: ToolContext) -> str:
    "Wait until it is stopped."
    call.on_cancel = lambda: "It was waiting for a while."
    call.progress("waiting begins\n")
    await anyio.sleep_forever()
    raise AssertionError


@agent.prompt
async def answer(turn: Turn):
    first = (turn.text.splitlines() or [""])[0]  # some editors add lines of their own
    match first.split():
        case ["think"]:
            await turn.think("I ponder the question. ")
            yield "My answer is forty-two. "
        case ["stream", *_]:
            for number in range(100_000):
                yield f"item-{number} "
                await anyio.sleep(0.05)
        case ["change", old, new]:
            yield "I will change it. "
            result = await turn.run_tool(change, {"old": old, "new": new})
            yield f"Outcome of {new}: {result.status}. "
        case ["wait"]:
            yield "I wait. "
            await turn.run_tool(wait, {})
        case ["plan"]:
            steps = [PlanEntry(content="Sharpen the axe", priority="high", status="completed"), "Cut the tree"]
            await turn.plan(steps)
            yield "There is a plan. "
        case ["usage"]:
            turn.add_usage(input_tokens=40_000, output_tokens=2_000, context_size=100_000, cost=0.25)
            yield "It has cost something. "
        case ["delegate"]:
            async with turn.subagent("Scout the woods", task="Look for trees.") as child:
                await child.say("There are seven trees.")
            yield "The scout is back. "
        case ["fail"]:
            raise RuntimeError("out of luck")
        case ["settings"]:
            session = turn.session
            yield f"Now {session.mode}, {session.config('voice')} and {session.config('brief')}. "
        case ["before"]:
            yield f"{len(turn.context())} messages before. "
        case words:
            yield f"You said {' '.join(words)!r}. "
