"""Any sequence of updates comes to what the rules of patches say, and a record can be rebuilt from its own updates."""

from base64 import b64decode, b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_server.schema import from_wire, v2
from tests.schema.v2.fragments import COMMANDS, OPTIONS, TEXT

Wire = dict[str, Any]
KINDS = {
    "user_message": ("user_message", "messageId"),
    "agent_message": ("agent_message", "messageId"),
    "agent_thought": ("agent_thought", "messageId"),
    "tool_call_update": ("tool_call", "toolCallId"),
    "terminal_update": ("terminal", "terminalId"),
    "subagent_update": ("subagent", "sessionId"),
    "session_message": ("session_message", "messageId"),
    "session_message_chunk": ("session_message", "messageId"),
    "compaction_update": ("compaction", "compactionId"),
    "user_message_chunk": ("user_message", "messageId"),
    "agent_message_chunk": ("agent_message", "messageId"),
    "agent_thought_chunk": ("agent_thought", "messageId"),
    "tool_call_content_chunk": ("tool_call", "toolCallId"),
    "compaction_summary_chunk": ("compaction", "compactionId"),
    "terminal_output_chunk": ("terminal", "terminalId"),
}

ids = st.sampled_from(["a", "b"])
words = st.sampled_from(["", "x", "y"])
data = st.binary(max_size=3).map(lambda raw: b64encode(raw).decode())
blocks = st.builds(lambda text: {"type": "text", "text": text}, words)
outputs = st.one_of(
    st.builds(lambda block: {"type": "content", "content": block}, blocks),
    st.just({"type": "_chart", "points": [None]}),
)
metas = st.dictionaries(st.sampled_from("pqr"), st.one_of(st.none(), st.integers(0, 2), st.just({"deep": None})))


def update(tag: str, required: dict[str, Any], /, **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Wire]:
    """Updates of one kind. Each optional field is absent, null or a value."""
    fields = {key: st.one_of(st.none(), values) for key, values in optional.items()}
    return st.fixed_dictionaries({"sessionUpdate": st.just(tag), **required}, optional=fields)


def message(tag: str) -> st.SearchStrategy[Wire]:
    whole = update(tag, {"messageId": ids}, content=st.lists(blocks, max_size=2), _meta=metas, mood=words)
    return st.one_of(whole, update(f"{tag}_chunk", {"messageId": ids, "content": blocks}))


updates = st.one_of(
    message("user_message"),
    message("agent_message"),
    message("agent_thought"),
    message("session_message"),
    update("subagent_update", {"sessionId": ids}, title=words, additionalDirectories=st.just([]), _meta=metas),
    update(
        "tool_call_update",
        {"toolCallId": ids},
        title=words,
        kind=st.sampled_from(["read", "_dance"]),
        status=st.sampled_from(["in_progress", "completed"]),
        content=st.lists(outputs, max_size=2),
        locations=st.lists(st.just({"path": "/w"}), max_size=1),
        rawInput=st.one_of(st.just([]), st.just({"limit": None}), words),
        capabilities=st.just({"cancel": {}}),
        _meta=metas,
        mood=words,
    ),
    update("tool_call_content_chunk", {"toolCallId": ids, "content": outputs}),
    update(
        "terminal_update",
        {"terminalId": ids},
        command=words,
        output=st.builds(lambda shown: {"data": shown}, data),
        exitStatus=st.sampled_from([{}, {"exitCode": 1}]),
        _meta=metas,
    ),
    update("terminal_output_chunk", {"terminalId": ids, "data": data}),
    update("plan_update", {"plan": st.builds(lambda plan: {"type": "items", "planId": plan, "entries": []}, ids)}),
    update("plan_update", {"plan": st.builds(lambda plan: {"type": "_graph", "planId": plan, "edges": [1]}, ids)}),
    update(
        "compaction_update",
        {"compactionId": ids, "status": st.sampled_from(["in_progress", "completed"])},
        summary=st.lists(blocks, max_size=2),
        error=words,
        _meta=metas,
    ),
    update("compaction_summary_chunk", {"compactionId": ids, "content": blocks}),
    update("session_info_update", {}, title=words, updatedAt=words, _meta=metas),
    update(
        "usage_update", {"used": st.integers(0, 3), "size": st.just(9)}, cost=st.just({"amount": 0.5, "currency": "E"})
    ),
    update("state_update", {"state": st.sampled_from(["running", "idle", "_dreaming"])}),
    update("available_commands_update", {"availableCommands": st.sampled_from([[], COMMANDS])}),
    update("config_option_update", {"configOptions": st.sampled_from([[], OPTIONS])}),
    update("notice", {"severity": st.just("info"), "title": st.just("t")}),
    update("_weather", {}, sun=words),
)


class Plain:
    """The rules as they are written, on plain dictionaries."""

    def __init__(self) -> None:
        self.things: dict[tuple[str, str], Wire] = {}
        self.last: dict[str, Wire] = {"session_info_update": {}}

    def apply(self, wire: Wire) -> None:
        tag = wire["sessionUpdate"]
        rest = {key: value for key, value in wire.items() if key != "sessionUpdate"}
        if tag in KINDS:
            kind, key = KINDS[tag]
            new = {key: wire[key], **({"status": "in_progress"} if kind == "compaction" else {})}
            thing = self.things.setdefault((kind, wire[key]), new)
            if tag == "terminal_output_chunk":
                thing["output"] = thing.get("output", b"") + b64decode(wire["data"])
            elif tag.endswith("_chunk"):
                name = "summary" if kind == "compaction" else "content"
                thing[name] = [*thing.get(name, []), wire["content"]]
            else:
                self.patch(thing, rest)
        elif tag == "plan_update":
            self.things["plan", wire["plan"]["planId"]] = rest
        elif tag == "_weather":
            self.things["unknown", str(len(self.things))] = rest
        elif tag == "session_info_update":
            self.patch(self.last[tag], rest)
        elif tag == "usage_update":
            cost = rest["cost"] if "cost" in rest else self.last.get(tag, {}).get("cost")
            self.last[tag] = {**rest, "cost": cost} if cost else {key: rest[key] for key in ("used", "size")}
        elif tag != "notice":
            self.last[tag] = rest

    def patch(self, thing: Wire, changes: Wire) -> None:
        for key, value in changes.items():
            if key == "_meta" and value is not None:
                kept = {name: old for name, old in thing.get(key, {}).items() if name not in value}
                thing[key] = kept | {name: new for name, new in value.items() if new is not None}
            elif key == "output" and value is not None:
                thing[key] = b64decode(value["data"])
            elif value is None or (value == [] and key in ("content", "locations", "summary")):
                thing.pop(key, None)
            else:
                thing[key] = value

    def stream(self) -> list[Wire]:
        """The things and then the last of everything else, without their tags."""
        shown = list(map(dict, self.things.values()))
        for thing in shown:
            output = thing.pop("output", None)
            if output:
                thing["output"] = {"data": b64encode(output).decode()}
        order = "session_info_update usage_update available_commands_update config_option_update state_update"
        return shown + [self.last[tag] for tag in order.split() if tag in self.last]


def record_of(stream: list[Wire]) -> v2.SessionRecord:
    record = v2.SessionRecord()
    for wire in stream:
        record.apply(from_wire(v2.SessionUpdate, wire))
    return record


def untagged(update: Any) -> Wire:
    return {key: value for key, value in update.to_wire().items() if key != "sessionUpdate"}


@settings(max_examples=300)
@given(st.lists(updates, max_size=25))
def test_any_sequence_of_updates_comes_to_what_the_rules_say(stream: list[Wire]) -> None:
    plain = Plain()
    for wire in stream:
        plain.apply(wire)
    assert [untagged(update) for update in record_of(stream).updates()] == plain.stream()


@settings(max_examples=150)
@given(st.lists(updates, max_size=25))
def test_a_record_rebuilt_from_its_own_updates_is_equal_to_it(stream: list[Wire]) -> None:
    record = record_of(stream)
    assert record_of([update.to_wire() for update in record.updates()]) == record


def test_records_that_say_other_things_are_not_equal() -> None:
    said, other = ({"sessionUpdate": "user_message", "messageId": "m", "content": [TEXT] * n} for n in (1, 2))
    assert record_of([said]) != record_of([other])
    assert record_of([said]) != "a record"


def test_a_record_changes_no_update_that_it_was_given_or_gave() -> None:
    record = v2.SessionRecord()
    given = v2.AgentMessage(message_id="m", content=[v2.TextContent(text="a")])
    record.apply(given)
    before = next(record.updates())
    shown = before.to_wire()["content"]
    record.apply(v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text="more")))
    assert given.to_wire()["content"] == before.to_wire()["content"] == shown
    assert len(next(record.updates()).to_wire()["content"]) == 2


def test_a_thing_stays_where_it_was_first_heard_of() -> None:
    stream: list[Wire] = [{"sessionUpdate": "agent_message", "messageId": id} for id in ("a", "b", "a")]
    stream.insert(1, {"sessionUpdate": "user_message", "messageId": "a"})
    assert list(record_of(stream).things) == [("agent_message", "a"), ("user_message", "a"), ("agent_message", "b")]


@pytest.mark.parametrize(
    ("told", "cost"),
    [
        ({}, {"amount": 1.0, "currency": "E"}),
        ({"cost": None}, None),
        ({"cost": {"amount": 2.0, "currency": "E"}}, {"amount": 2.0, "currency": "E"}),
    ],
)
def test_the_cost_stands_until_it_is_cleared_or_replaced(told: Wire, cost: Wire | None) -> None:
    usage = {"sessionUpdate": "usage_update", "used": 1, "size": 2}
    record = record_of([{**usage, "cost": {"amount": 1.0, "currency": "E"}}, {**usage, **told}])
    assert record.usage is not None
    assert record.usage.to_wire().get("cost") == cost


@pytest.mark.parametrize("wrong", ["%", "aGk", "aG\nk="])
def test_output_that_is_not_base64_changes_nothing(wrong: str) -> None:
    update = {"sessionUpdate": "terminal_update", "terminalId": "t"}
    chunk = {"sessionUpdate": "terminal_output_chunk", "terminalId": "t"}
    stream = [{**update, "output": {"data": "aGk="}}, {**chunk, "data": wrong}, {**update, "output": {"data": wrong}}]
    assert next(record_of(stream).updates()).to_wire()["output"] == {"data": "aGk="}


def test_a_character_that_two_chunks_share_is_put_together() -> None:
    chunks = [b64encode(part).decode() for part in (b"\xc3", b"\xa4")]
    stream = [{"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": chunk} for chunk in chunks]
    terminal = record_of(stream).things["terminal", "t"]
    assert isinstance(terminal, v2.TerminalRecord)
    assert terminal.output.decode() == "ä"


def test_the_work_for_a_chunk_does_not_grow_with_the_message() -> None:
    record = v2.SessionRecord()
    record.apply(v2.AgentMessage(message_id="m", content=[v2.TextContent(text="a")]))
    thing = record.things["agent_message", "m"]
    assert isinstance(thing, v2.AgentMessage)
    before = thing.content
    record.apply(v2.AgentMessageChunk(message_id="m", content=v2.TextContent(text="b")))
    assert thing.content is before
