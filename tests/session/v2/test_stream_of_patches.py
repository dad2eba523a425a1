"""Whatever an author says in a turn: the updates that the client gets, put together by the rules of patches, are what
the agent's record has, and a replay of that record is the same once more."""

from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_server import Agent, ToolContext, ToolFailed, Turn
from acp_server.schema import (
    AgentMessageChunk,
    CompactionUpdate,
    Content,
    Diff,
    Notice,
    PlanEntry,
    TextContent,
    ToolCall,
    ToolCallLocation,
    ToolCallProgress,
    UsageUpdate,
)
from acp_server.store.records import TurnRecord
from tests.schema.v2.test_record import Plain
from tests.session.v2.editor import editing

Wire = dict[str, Any]
SAID = ("user_message", "agent_message", "agent_thought")

words = st.sampled_from(["a", "b", "\u00e9\u2028\n"])
ids = st.sampled_from(["x", "y"])
outputs = st.lists(
    st.one_of(
        words.map(lambda text: Content(content=TextContent(text=text))),
        st.builds(lambda old, new: Diff(path="/f", old_text=old, new_text=new), st.none() | words, words),
    ),
    max_size=2,
)
places = st.lists(st.builds(ToolCallLocation, path=st.just("/f"), line=st.sampled_from([None, 0, 3])), max_size=1)
statuses = st.sampled_from(["pending", "in_progress", "completed", "failed"])
changes = st.fixed_dictionaries(
    {},
    optional={"title": words, "status": statuses, "content": outputs, "locations": places, "raw_output": st.just([1])},
)
plans = st.lists(st.builds(PlanEntry, content=words, priority=st.just("low"), status=st.just("pending")), max_size=2)
said = st.one_of(
    st.tuples(st.just("say"), words),
    st.tuples(st.just("say"), words),
    st.tuples(st.just("think"), words),
    st.tuples(st.just("plan"), plans),
    st.tuples(st.just("tool"), st.tuples(st.lists(words, max_size=2), st.sampled_from(["returns", "fails", "cancel"]))),
    st.tuples(st.just("title"), words),
    st.tuples(
        st.just("update"),
        st.one_of(
            st.builds(lambda text: AgentMessageChunk(content=TextContent(text=text)), words),
            st.builds(lambda text, id: AgentMessageChunk(content=TextContent(text=text), message_id=id), words, ids),
            st.builds(lambda id, title: ToolCall(tool_call_id=id, title=title, kind="read"), ids, words),
            st.builds(lambda id, changes: ToolCallProgress(tool_call_id=id, **changes), ids, changes),
            st.builds(lambda used: UsageUpdate(used=used, size=9), st.integers(0, 3)),
            st.builds(lambda title: Notice(severity="info", title=title), words),
            st.builds(lambda id, how: CompactionUpdate(compaction_id=id, status=how), ids, st.just("completed")),
        ),
    ),
)


def author(script: list[Any], turns: list[Turn]) -> Agent:
    """An agent that says all of this, one after the other."""
    agent = Agent("author")

    @agent.tool
    async def work(call: ToolContext, pieces: list[str], fate: str) -> str:
        for piece in pieces:
            call.progress(piece)
        if fate == "fails":
            raise ToolFailed("no")
        if fate == "cancel":
            call.cancel()
            await anyio.sleep_forever()
        return "done"

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turns.append(turn)
        for name, what in script:
            match name:
                case "tool":
                    await turn.run_tool("work", {"pieces": what[0], "fate": what[1]})
                case "title":
                    await turn.session.set_title(what)
                case _:
                    await getattr(turn, name)(what)

    return agent


def in_whole(things: dict[tuple[str, str], Wire]) -> dict[tuple[str, str], Wire]:
    """With the pieces of each message put together."""
    return {
        key: {**thing, "content": "".join(block["text"] for block in thing["content"])} if key[0] in SAID else thing
        for key, thing in things.items()
    }


def recorded(record: TurnRecord) -> tuple[dict[str, str], dict[str, Wire]]:
    """What the agent has said, by the ids that its author gave, and its tool calls, as its record has them."""
    texts: dict[str, str] = {"": ""}
    calls: dict[str, Wire] = {}
    for event in record.events:
        if event["sessionUpdate"] == "agent_message_chunk":
            id = event.get("messageId", "")
            texts[id] = texts.get(id, "") + event["content"]["text"]
        elif event["sessionUpdate"] in ("tool_call", "tool_call_update"):
            calls.setdefault(event["toolCallId"], {}).update(event)
    return texts, calls


async def check(script: list[Any]) -> None:
    turns: list[Turn] = []
    async with editing(author(script, turns)) as editor:
        session = await editor.open()
        assert await editor.ask(session) == {"stopReason": "end_turn"}
        live = Plain()
        for update in editor.client.updates(session):
            live.apply(update)
        texts, calls = recorded(turns[0].record)
        told = in_whole(live.things)
        shown_texts = {"": ""}
        for (kind, id), thing in told.items():
            if kind == "agent_message":
                id = id if id in texts else ""
                shown_texts[id] = shown_texts.get(id, "") + thing["content"]
        assert shown_texts == texts
        assert {id for kind, id in told if kind == "tool_call"} == {*calls}
        for id, call in calls.items():
            shown = told["tool_call", id]
            assert shown.get("title") == call.get("title")
            cancelled = (call.get("_meta") or {}).get("outcome") == "cancelled"
            assert shown.get("status") == ("cancelled" if cancelled else call.get("status"))
            assert len(shown.get("content", [])) == len(call.get("content", []))
            assert shown.get("rawOutput") == call.get("rawOutput")
            # What has ended cannot be cancelled.
            assert "capabilities" not in shown

        seen = len(editor.client.updates(session))
        await editor.client.result(
            "session/resume", {"sessionId": session, "cwd": "/p", "replayFrom": {"type": "start"}}
        )
        again = Plain()
        for update in editor.client.updates(session)[seen:]:
            again.apply(update)
        assert in_whole(again.things) == told
        assert again.last.get("usage_update") == live.last.get("usage_update")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_stream_of_patches_comes_to_what_the_record_has(backend: str) -> None:
    @settings(max_examples=80, derandomize=True)
    @given(st.lists(said, max_size=8))
    def holds(script: list[Any]) -> None:
        anyio.run(check, script, backend=backend)

    holds()
