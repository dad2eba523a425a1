"""An agent that does as it is told. The first word of the last line of a prompt is the command; see `act`.

It remembers what was said in a session, so that `recall` shows what it has as context. With the environment variable
EAR it writes a line to that named pipe when it begins and when it ends to work.
"""

import os
import signal
import sys
from contextlib import suppress
from typing import Any

import anyio

from acp_server import Agent, RpcError, Session, Turn
from acp_server.schema import (
    BooleanPropertySchema,
    Content,
    ElicitationSchema,
    PermissionOption,
    StringPropertySchema,
    TextContent,
    ToolCall,
    ToolCallContent,
    ToolCallProgress,
    ToolCallUpdate,
    UsageUpdate,
)

agent = Agent("busy", version="1.0")

OPTIONS = [
    PermissionOption(option_id="yes", name="Yes, do it", kind="allow_once"),
    PermissionOption(option_id="no", name="No", kind="reject_once"),
]


@agent.prompt
async def prompt(turn: Turn) -> None:
    said: list[str] = turn.session.data if turn.session.data is not None else []
    turn.session.data = said
    tell("begin", turn.text.split("\n")[-1])
    tell("chat", turn.meta.get("acp_server/chat", {}).get("chat_id"))
    try:
        heard = [*said, turn.text]
        await act(turn, heard)
        said.append(turn.text)
    except BaseException:
        tell("cut", turn.text.split("\n")[-1])
        raise
    tell("end", turn.text.split("\n")[-1])


async def act(turn: Turn, heard: list[str]) -> None:
    work, _, rest = turn.text.split("\n")[-1].partition(" ")
    if work == "echo":
        await turn.say(rest)
    elif work == "count":
        for number in range(int(rest.split()[0])):
            await turn.say(f"{number} ")
            await anyio.lowlevel.checkpoint()
    elif work in ("slowly", "slower"):  # as many pieces, each with a moment; for tests that want to be in the middle
        for number in range(int(rest.split()[0])):
            await turn.say(f"{number} ")
            await anyio.sleep(0.01 if work == "slowly" else 0.06)
    elif work in ("slowly-ask", "slowly-use"):
        for _ in range(int(rest.split()[0])):
            await anyio.sleep(0.01)
        await (ask(turn, "late") if work == "slowly-ask" else use_a_tool(turn, "late"))
    elif work == "tire":
        raise TimeoutError("a secret")
    elif work == "half":
        await turn.say("one \ud83d")
        await use_a_tool(turn, "two \ud83d")
    elif work == "environment":
        await turn.say(" ".join(os.environ))
    elif work == "hang":
        await turn.say("hanging")
        await turn.update(UsageUpdate(used=21, size=1000))
        turn.add_usage(input_tokens=10, output_tokens=5)
        tell("hangs", rest)
        await anyio.sleep_forever()
    elif work == "think":
        await turn.think("hm")
        await turn.say(rest)
    elif work == "recall":
        await turn.say(" | ".join(heard))
    elif work == "meta":
        await turn.say(repr(turn.meta))
    elif work == "use":
        await use_a_tool(turn, rest)
    elif work == "ask":
        await ask(turn, rest)
    elif work == "ask-twice":
        async with anyio.create_task_group() as group:
            for name in ("first", "second"):
                group.start_soon(ask, turn, name)
    elif work == "meanwhile":
        number_of_pieces, *then = rest.split()
        async with anyio.create_task_group() as group:
            group.start_soon(ask, turn, "files")
            await anyio.wait_all_tasks_blocked()
            # When this is answered, what was asked before it has arrived.
            with suppress(RpcError):
                await turn.client.request("_barrier")
            for number in range(int(number_of_pieces)):
                await turn.say(f"{number} ".ljust(10_000))
            await use_a_tool(turn, "it")
            os.mkdir(os.path.join(turn.session.cwd, "said"))
            if "leave" in then:
                group.cancel_scope.cancel()
        if "hang" in then:
            await anyio.sleep_forever()
    elif work == "form":
        form = ElicitationSchema(
            properties={"city": StringPropertySchema(), "sure": BooleanPropertySchema()}, required=["city"]
        )
        answer = await turn.client.elicit_form("Where?", form)
        await turn.say(f"{answer.action} {getattr(answer, 'content', None)}")
    elif work == "url":
        answer = await turn.client.elicit_url("Log in", "https://example.org/login", elicitation_id="e1")
        await turn.say(answer.action)
    elif work == "impatient":
        with anyio.move_on_after(0.05):
            await ask(turn, "quickly")
        await turn.say("never mind")
        if rest:
            await anyio.sleep_forever()
    elif work == "fail":
        raise RuntimeError(rest)
    elif work == "refuse":
        turn.stop_reason = "refusal"
    elif work == "die":
        await turn.say("last words")
        await anyio.sleep(0.01)
        assert __name__ == "__main__", "it would take the tests with it"
        os.kill(os.getpid(), signal.SIGKILL)
    elif work == "usage":
        await turn.say("counted")
        await turn.update(UsageUpdate(used=int(rest), size=1000))
    elif work == "spend":
        await turn.update(UsageUpdate(used=500, size=1000))
        read, written = map(int, rest.split())
        turn.add_usage(input_tokens=read, output_tokens=written)
    elif work == "flood":
        while True:
            await turn.say("x" * 10_000)
    elif work == "heap":
        # More than the pipes to a client that does not read take, in one event, for which no stream is cut.
        await turn.say("x" * 12_000_000)
        await anyio.sleep_forever()
    elif work == "flood-tools":
        await flood_with_tools(turn)


async def flood_with_tools(turn: Turn) -> None:
    number = 0
    while True:
        number += 1
        found: list[ToolCallContent] = [Content(content=TextContent(text="x" * 10_000))]
        await turn.update(ToolCall(tool_call_id=f"f{number}", title="Look", status="completed", content=found))


async def use_a_tool(turn: Turn, what: str) -> None:
    await turn.say("Let me look. ")
    await turn.update(ToolCall(tool_call_id="t1", title="Look", name="look", kind="search", status="pending"))
    await turn.update(ToolCallProgress(tool_call_id="t1", status="in_progress", raw_input={"for": what}))
    found: list[ToolCallContent] = [Content(content=TextContent(text=f"found {what}"))]
    await turn.update(ToolCallProgress(tool_call_id="t1", status="completed", content=found))
    await turn.say(f"There is {what}.")


async def ask(turn: Turn, what: str) -> None:
    call = ToolCallUpdate(tool_call_id=f"call-{what}", title=f"Delete {what}", kind="delete", raw_input={"what": what})
    answer = await turn.client.request_permission(call, OPTIONS)
    await turn.say(f"{what}: {answer.option_id}. ")


@agent.session
async def open_session(session: Session) -> None:
    if "mute" in sys.argv:
        await anyio.sleep_forever()
    if "stumble" in sys.argv:
        try:
            os.close(os.open(sys.argv[-1], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass  # This is the second time.
        else:
            os._exit(1)
    session.on_close(lambda: tell("closed", session.data[-1] if session.data else "unused"))


def tell(*words: Any) -> None:
    if ear := os.environ.get("EAR"):
        with open(ear, "w") as pipe:
            pipe.write(" ".join(map(str, words)) + "\n")


if __name__ == "__main__":
    agent.run()
