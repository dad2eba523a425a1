"""What programs see of the updates of version 2, and that it comes to the same as the rules of patches say."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acp_server.client.v2.updates import CALLS, PIECES, Translator, tool_call
from acp_server.schema import SessionUpdate, from_wire, v2
from tests.client.talking import SESSION
from tests.client.v2.talking import call, said, state, talking_2, text, whole
from tests.schema.v2.test_record import Plain, updates

Wire = dict[str, Any]


def output(words: str) -> Wire:
    return {"type": "content", "content": text(words)}


def piece(words: str, id: str = "c1") -> Wire:
    return {"sessionUpdate": "tool_call_content_chunk", "toolCallId": id, "content": output(words)}


def translated(*stream: Wire) -> list[Wire]:
    translate = Translator()
    plain = [out for wire in stream for out in translate(from_wire(v2.SessionUpdate, wire).to_wire())]
    for out in plain:
        # Every one of them can be read by a program that knows version 1.
        from_wire(SessionUpdate, out)
    return plain


class Shown:
    """A program that shows what it is told, by the rules of version 1, and takes messages that are said anew."""

    def __init__(self) -> None:
        self.messages: dict[tuple[str, str], str] = {}
        self.calls: dict[str, Wire] = {}
        self.plan: dict[str, list[Wire]] = {}
        self.cost: Any = None

    def show(self, update: Wire) -> None:
        tag = update["sessionUpdate"]
        if tag in ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk"):
            key = tag.removesuffix("_chunk"), update["messageId"]
            self.messages[key] = self.messages.get(key, "") + update["content"]["text"]
        elif tag in ("user_message", "agent_message", "agent_thought"):
            if "content" in update:
                self.messages[tag, update["messageId"]] = _text(update["content"])
        elif tag == "tool_call":
            self.calls[update["toolCallId"]] = _seen({"status": "pending", "content": [], **update})
        elif tag == "tool_call_update":
            self.calls[update["toolCallId"]] |= _seen(update)
        elif tag == "plan":
            self.plan[update["planId"]] = update["entries"]
        elif tag == "usage_update":
            self.cost = update["cost"]


def _seen(update: Wire) -> Wire:
    return {key: update[key] for key in ("status", "content", "locations", "kind") if key in update}


def _text(blocks: list[Wire] | None) -> str:
    return "".join(block["text"] for block in blocks or [])


SAID = ("user_message", "agent_message")


@settings(max_examples=400)
@given(st.lists(updates, max_size=25))
def test_any_sequence_of_updates_shows_what_the_rules_of_patches_say(stream: list[Wire]) -> None:
    plain, shown = Plain(), Shown()
    for wire in stream:
        plain.apply(wire)
    for update in translated(*stream):
        shown.show(update)
    messages = {key: _text(thing.get("content")) for key, thing in plain.things.items() if key[0] in SAID}
    messages |= {key: _text(thing.get("content")) for key, thing in plain.things.items() if key[0] == "agent_thought"}
    assert {key: words for key, words in shown.messages.items() if words} == {
        key: words for key, words in messages.items() if words
    }
    defaults = {"kind": "other", "status": "pending", "content": [], "locations": []}
    for (kind, id), thing in plain.things.items():
        if kind == "tool_call":
            assert defaults | shown.calls[id] == defaults | _seen(tool_call(thing))
        elif kind == "plan" and thing["plan"]["type"] == "items" and id in shown.plan:
            assert shown.plan[id] == thing["plan"]["entries"]
    assert shown.cost == plain.last.get("usage_update", {}).get("cost")


def test_a_whole_message_is_shown_as_its_pieces_are() -> None:
    assert translated(whole("a", "b")) == [said("a"), said("b")]


def test_of_a_whole_message_behind_its_pieces_only_the_rest_is_shown() -> None:
    image = {"type": "image", "data": "AA==", "mimeType": "image/png"}
    message = {**whole("ö", "ber", "all"), "content": [text("öber"), image, text("all")]}
    assert translated(said("ö"), said("b"), message)[2:] == [
        said("er"),
        {**said(""), "content": image},
        said("all"),
    ]
    assert translated(said("öb"), whole("öb")) == [said("öb")]


@pytest.mark.parametrize("change", [whole("other"), whole("a"), {**whole(), "content": None}])
def test_a_message_that_is_said_anew_goes_on_as_it_came(change: Wire) -> None:
    assert translated(said("ab"), change, whole("a", "c"))[1] == change


def test_messages_of_different_kinds_may_have_the_same_id() -> None:
    thought = whole("t", by="agent_thought")
    assert translated(said("a"), thought) == [said("a"), said("t", by="agent_thought")]


def test_the_first_update_of_a_tool_call_begins_it_and_a_cleared_field_has_its_default() -> None:
    assert translated(call(name="ls"), call("completed", title="List"), call(kind=None, title=None)) == [
        {"sessionUpdate": "tool_call", "toolCallId": "c1", "name": "ls", "title": "ls"},
        call("completed", title="List"),
        call(kind="other", title=""),
    ]


@pytest.mark.parametrize(("status", "shown"), [("cancelled", "failed"), ("paused", "in_progress")])
def test_a_status_that_version_1_does_not_have_is_one_that_it_has(status: str, shown: str) -> None:
    (begun,) = translated(call(status, _meta={"a": 1}))
    assert (begun["status"], begun["_meta"]) == (shown, {"a": 1, "acp_server.status": status})


def test_pieces_of_output_are_collected_and_those_beyond_the_bound_go_on_as_they_came() -> None:
    begun, *pieces = translated(*(piece(str(number)) for number in range(PIECES + 1)))
    assert begun == {"sessionUpdate": "tool_call", "toolCallId": "c1", "title": "c1"}
    assert pieces[1]["content"] == [output("0"), output("1")]
    assert len(pieces[-2]["content"]) == PIECES
    assert pieces[-1] == piece(str(PIECES))
    assert translated(piece("x" * 70_000), piece("y"))[1:] == [piece("x" * 70_000), piece("y")]


def test_all_of_the_output_takes_the_place_of_the_pieces() -> None:
    *_, last = translated(piece("a"), call(content=[output("b")]), piece("c"))
    assert last["content"] == [output("b"), output("c")]


def test_a_tool_call_that_is_forgotten_begins_anew() -> None:
    stream = [piece("x", str(number)) for number in range(CALLS + 1)]
    last = translated(*stream, piece("y", "0"))[-2:]
    assert [update["sessionUpdate"] for update in last] == ["tool_call", "tool_call_update"]


def test_a_diff_is_shown_as_text() -> None:
    diff = {"type": "diff", "changes": [{"operation": "modify", "path": "/w/a"}, {"operation": "_x"}]}
    patch = {"format": "git_patch", "text": "+```\n"}
    (begun,) = translated(call(content=[diff, {**diff, "patch": patch}]))
    assert [item["content"]["text"] for item in begun["content"]] == ["modify /w/a\n_x", "````diff\n+```\n````"]
    assert begun["content"][0]["diff"] == diff


def test_options_plans_and_costs_have_the_form_of_version_1() -> None:
    group = {"groupId": "g", "name": "G", "options": [{"value": "v", "name": "V"}]}
    option = {"type": "select", "configId": "m", "name": "M", "currentValue": "v", "options": [group]}
    step = {"content": "x", "priority": "low", "status": "cancelled"}
    usage = {"sessionUpdate": "usage_update", "used": 1, "size": 2}
    cost = {"amount": 1.5, "currency": "EUR"}
    options, plan, *usages = translated(
        {"sessionUpdate": "config_option_update", "configOptions": [option, {**option, "type": "_dial"}]},
        {"sessionUpdate": "plan_update", "plan": {"type": "items", "planId": "p", "entries": [step]}},
        {**usage, "cost": cost},
        usage,
        {**usage, "cost": None},
    )
    assert [one["id"] for one in options["configOptions"]] == ["m", "m"]
    read = from_wire(SessionUpdate, options).config_options
    assert read[0].options[0].group == "g"
    assert (plan["sessionUpdate"], plan["entries"], plan["planId"]) == ("plan", [step], "p")
    assert [usage["cost"] for usage in usages] == [cost, cost, None]


@pytest.mark.parametrize(
    "update",
    [
        state("requires_action"),
        {"sessionUpdate": "terminal_update", "terminalId": "t", "command": None},
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "t", "data": "AA=="},
        {"sessionUpdate": "plan_update", "plan": {"type": "_graph", "planId": "p"}},
        {"sessionUpdate": "_weather", "sun": None},
        {"sessionUpdate": "agent_message", "messageId": "m", "_meta": {"a": 1}},
    ],
)
def test_what_version_1_has_no_form_for_goes_on_as_it_came(update: Wire) -> None:
    assert translated(update) == [update]


@pytest.mark.anyio
async def test_an_update_that_is_not_as_version_2_has_it_costs_itself_alone(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[Wire] = []
    async with talking_2() as (agent, peer):
        await agent.new_session("/project", on_update=lambda update: heard.append(update.to_wire()))
        await peer.update({"sessionUpdate": "agent_message_chunk"}, {"sessionUpdate": 7}, said("hi"))
        await peer.barrier()
    assert heard == [said("hi")]
    assert "not valid in version 2" in caplog.text


@pytest.mark.anyio
async def test_several_updates_for_one_are_taken_in_order_by_a_program_that_waits() -> None:
    heard: list[Wire] = []

    async def hear(update: Any) -> None:
        heard.append(update.to_wire())

    async with talking_2() as (agent, peer):
        await agent.new_session("/project", on_update=hear)
        await peer.update(whole("a", "b", "c"), said("d"), session=SESSION)
        await peer.barrier()
    assert heard == [said("a"), said("b"), said("c"), said("d")]
