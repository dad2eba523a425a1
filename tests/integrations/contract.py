"""What every adapter of a framework promises: a cancel in any phase of a turn closes the model's socket at once."""

import time
import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from acp_server import Agent
from tests.integrations.model_server import BREAK, HANG, ModelServer, Refusal, model_server, tool_call
from tests.session.agents import setup
from tests.session.editor import Editor, editing

PERMISSION = "session/request_permission"
SECRET = "sk-very-secret"
CLOSED_WITHIN = 0.2
"""Seconds from a session/cancel until the model sees that its peer is gone."""

Make = Callable[[ModelServer, "Tools"], Agent]
"""Makes an agent of the framework: its model is at the server, and it has two tools, `look` and, approved, `touch`."""


class Tools:
    """What the tools of the framework's agent do."""

    def __init__(self) -> None:
        self.running = anyio.Event()
        self.hangs = False
        self.stopped = False
        self.ran: list[str] = []

    async def look(self, word: str) -> str:
        self.ran.append(word)
        self.running.set()
        if self.hangs:
            try:
                await anyio.sleep_forever()
            finally:
                self.stopped = True
        return f"found {word}"


async def answered_whole(make: Make) -> None:
    async with model_server(["Let me ", "see. ", tool_call("look", {"word": "a"})], ["It is ", "here."]) as server:
        tools = Tools()
        async with editing(make(server, tools)) as editor:
            session = await editor.open()
            answer = await editor.ask(session, "Where is a?")
            assert answer["stopReason"] == "end_turn"
            assert answer["_meta"]["usage"]["totalTokens"] == 10
            assert "".join(editor.said()) == "Let me see. It is here."
            calls = [update for update in editor.client.updates() if "toolCallId" in update]
            assert (calls[0]["name"], calls[0]["rawInput"]) == ("look", {"word": "a"})
            assert [call["status"] for call in calls] == ["pending", "in_progress", "completed"]
            assert calls[-1]["content"][0]["content"]["text"] == "found a"
        assert tools.ran == ["a"]


async def _cancelled(editor: Editor, session: str, id: Any, server: ModelServer | None) -> None:
    begun = time.monotonic()
    await editor.cancel(session)
    if server is not None:
        await server.left.wait()
        assert time.monotonic() - begun < CLOSED_WITHIN
    assert (await editor.answer(id))["stopReason"] == "cancelled"


async def _goes_on(editor: Editor, session: str, server: ModelServer) -> None:
    """The next turn works, and what the model is shown of the one that was cut is in order."""
    server.replies.append(["Fine."])
    assert (await editor.ask(session, "And now?"))["stopReason"] == "end_turn"
    assert editor.said()[-1] == "Fine."
    messages = server.requests[-1]["messages"]
    assert [message["content"] for message in messages if message["role"] == "user"][-1] == "And now?"
    wanted = [call["id"] for message in messages for call in message.get("tool_calls") or ()]
    assert wanted == [message["tool_call_id"] for message in messages if message["role"] == "tool"]


async def cut_before_the_first_token(make: Make) -> None:
    async with model_server([HANG]) as server, editing(make(server, Tools())) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "Why?")
        await server.hanging.wait()
        await _cancelled(editor, session, id, server)
        await _goes_on(editor, session, server)


async def cut_in_the_middle_of_the_stream(make: Make) -> None:
    async with model_server(["Because ", "of ", HANG]) as server, editing(make(server, Tools())) as editor:
        session = await editor.open()
        id = await editor.prompt(session, "Why?")
        await server.hanging.wait()
        await editor.client.expect(lambda message: "of " in str(message))
        await _cancelled(editor, session, id, server)
        await _goes_on(editor, session, server)
        before = len(editor.client.updates())
        await editor.client.result("session/load", setup(session))
        replayed = "".join(str(update["content"]["text"]) for update in editor.client.updates()[before:])
        assert replayed == "Why?Because of [stopped]And now?Fine."


async def cut_while_the_client_does_not_read(make: Make) -> None:
    async with model_server(["much " * 40_000, "more ", HANG]) as server, editing(make(server, Tools())) as editor:
        session = await editor.open()
        editor.stream.stall_sending()
        id = await editor.prompt(session, "Why?")
        await server.hanging.wait()
        await editor.stream.stalled.wait()
        begun = time.monotonic()
        await editor.cancel(session)
        await server.left.wait()
        assert time.monotonic() - begun < CLOSED_WITHIN
        editor.stream.release()
        assert (await editor.answer(id))["stopReason"] == "cancelled"
        await _goes_on(editor, session, server)


async def cut_in_a_running_tool(make: Make) -> None:
    async with model_server([tool_call("look", {"word": "a"})]) as server:
        tools = Tools()
        tools.hangs = True
        async with editing(make(server, tools)) as editor:
            session = await editor.open()
            id = await editor.prompt(session, "Why?")
            await tools.running.wait()
            await editor.client.expect(lambda message: "tool_call" in str(message))
            await _cancelled(editor, session, id, None)
            assert tools.stopped
            assert [u["status"] for u in editor.client.updates() if "toolCallId" in u][-1] == "failed"
            await _goes_on(editor, session, server)


async def cut_in_a_waiting_approval(make: Make) -> None:
    async with model_server([tool_call("touch", {"word": "a"})]) as server:
        tools = Tools()
        async with editing(make(server, tools)) as editor:
            session = await editor.open()
            id = await editor.prompt(session, "Do it.")
            asked = await editor.client.expect_request(PERMISSION)
            assert asked["params"]["toolCall"]["rawInput"] == {"word": "a"}
            await _cancelled(editor, session, id, None)
            assert editor.withdrawn() == [asked["id"]]
            await _goes_on(editor, session, server)
        assert not tools.ran


async def approval_decides(make: Make, option: str) -> None:
    async with model_server([tool_call("touch", {"word": "a"})], ["So be it."]) as server:
        tools = Tools()
        async with editing(make(server, tools)) as editor:
            editor.client.answer(PERMISSION, {"outcome": {"outcome": "selected", "optionId": option}})
            session = await editor.open()
            assert (await editor.ask(session, "Do it."))["stopReason"] == "end_turn"
            [asked] = editor.client.all(PERMISSION)
            shown = [update["toolCallId"] for update in editor.client.updates() if "toolCallId" in update]
            assert {asked["params"]["toolCall"]["toolCallId"]} == set(shown)
        assert tools.ran == (["a"] if option == "allow_once" else [])


async def cut_at_each_event_in_turn(make: Make) -> None:
    """Behind each piece that the model says, of the answer that calls a tool and of the one behind the tool."""
    first: list[Any] = ["Let me ", "see. ", tool_call("look", {"word": "a"})]
    second: list[Any] = ["It is ", "here."]
    cuts = [([[*first[:count], HANG]], "".join(first[: min(count, 2)])) for count in range(len(first) + 1)]
    cuts += [([first, [*second[:count], HANG]], "Let me see. " + "".join(second[:count])) for count in range(3)]
    for replies, said in cuts:
        async with model_server(*replies) as server, editing(make(server, Tools())) as editor:
            session = await editor.open()
            id = await editor.prompt(session, "Where is a?")
            await server.hanging.wait()
            while "".join(editor.said()) != said:
                await anyio.lowlevel.checkpoint()
            await _cancelled(editor, session, id, server)
            await _goes_on(editor, session, server)


async def remembers_its_tool_calls(make: Callable[..., Agent], **options: Any) -> None:
    """A session that is loaded by another program goes on with what its tools were asked and have found."""
    replies = [["See. ", tool_call("look", {"word": "a"})], ["Here."]]
    async with model_server(*replies, [HANG], ["Fine."]) as server:
        async with editing(make(server, Tools(), **options)) as editor:
            session = await editor.open()
            assert (await editor.ask(session, "Where is a?"))["stopReason"] == "end_turn"
            id = await editor.prompt(session, "And b?")
            await server.hanging.wait()
            await _cancelled(editor, session, id, server)
        async with editing(make(server, Tools(), **options)) as editor:
            await editor.client.result("session/load", setup(session))
            assert (await editor.ask(session, "And now?"))["stopReason"] == "end_turn"
        messages = [message for message in server.requests[-1]["messages"] if message["role"] != "system"]
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant", "user"]
        [call] = messages[1]["tool_calls"]
        assert (call["function"]["name"], call["id"]) == ("look", messages[2]["tool_call_id"])
        assert [messages[at]["content"] for at in (0, 2, 3, 4)] == ["Where is a?", "found a", "Here.", "And now?"]


async def says_in_words_what_is_wrong_with_its_model(make: Make) -> None:
    """Not in those of the server, which may repeat the key; and the next turn works."""
    error = {"message": f"Incorrect: {SECRET}", "type": "x", "code": None}
    for reply, told in (
        (Refusal(401, error), "The model's server does not accept the key ("),
        (Refusal(429, error), "The model's server takes no more requests for now; try again later ("),
        (Refusal(500, error), "The model's server has failed; try again later ("),
        (["Well", BREAK], "The model's server cannot be reached, or the connection broke off"),
    ):
        # Clients send some requests again.
        async with model_server(reply, reply, reply) as server, editing(make(server, Tools())) as editor:
            session = await editor.open()
            answer = await editor.answer(await editor.prompt(session, "Why?"))
            assert answer["message"].startswith(told)
            server.replies = [["Fine."]]
            assert not [word for word in (SECRET, "Traceback", server.url) if word in str(editor.client.received)]
            assert (await editor.ask(session, "And now?"))["stopReason"] == "end_turn"
    async with editing(make(server, Tools())) as editor:
        answer = await editor.answer(await editor.prompt(await editor.open(), "Why?"))
        assert answer["message"].startswith("The model's server cannot be reached")


async def sessions_do_not_mix(make: Make, cwd: str = "/project") -> None:
    async with model_server(["one"], ["two"], ["three"]) as server, editing(make(server, Tools())) as editor:
        first, second = await editor.open(cwd), await editor.open(cwd)
        for session, text in ((first, "a"), (second, "b"), (first, "c")):
            assert (await editor.ask(session, text))["stopReason"] == "end_turn"
        said = [[said for said in server.said_to(number) if said[0] != "system"] for number in (1, 2)]
        assert said == [[("user", "b")], [("user", "a"), ("assistant", "one"), ("user", "c")]]


USED = {
    "prompt_tokens": 1_000,
    "completion_tokens": 100,
    "total_tokens": 1_100,
    "prompt_tokens_details": {"cached_tokens": 400},
    "completion_tokens_details": {"reasoning_tokens": 60},
}


def told_usage(editor: Editor) -> list[dict[str, Any]]:
    return [update for update in editor.client.updates() if update["sessionUpdate"] == "usage_update"]


async def tells_what_each_call_of_its_model_uses(make: Callable[..., Agent]) -> None:
    """When the call has ended, and with the answer the sum of all."""
    async with model_server([tool_call("look", {"word": "a"})], [HANG]) as server:
        server.usage = USED
        agent = make(server, Tools(), context_size=5_000, unstable={"end_turn_usage"})
        async with editing(agent) as editor:
            session = await editor.open()
            id = await editor.prompt(session, "Where is a?")
            await server.hanging.wait()
            await editor.client.expect(lambda message: "found a" in str(message))
            assert [(update["used"], update["size"]) for update in told_usage(editor)] == [(1_100, 5_000)]
            await editor.cancel(session)
            # What the first call has used is not lost with the second.
            assert (await editor.answer(id))["usage"]["totalTokens"] == 1_100
            server.replies = [[tool_call("look", {"word": "b"})], ["Here."]]
            assert (await editor.ask(session, "And b?"))["usage"] == {
                "inputTokens": 2_000,
                "outputTokens": 200,
                "totalTokens": 2_200,
                "thoughtTokens": 120,
                "cachedReadTokens": 800,
            }
            assert len(told_usage(editor)) == 3


async def knows_sizes_and_prices(make: Callable[..., Agent]) -> None:
    """`make` with the name of a model: at OpenAI, as far as the adapter can see."""
    async with model_server(["One."], ["Two."]) as server:
        server.usage, server.model = USED, "gpt-5-mini"
        async with editing(make(server, Tools(), "gpt-5-mini")) as editor:
            session = await editor.open()
            await editor.ask(session)
            await editor.ask(session)
            first, second = told_usage(editor)
            assert first["size"] == second["size"] == 400_000
            assert first["cost"]["currency"] == "USD"
            assert 0 < first["cost"]["amount"] < second["cost"]["amount"]


async def takes_no_number_of_a_server_for_granted(make: Callable[..., Agent]) -> None:
    for number in (-5, 2**60, 0):
        # One library warns of what cannot be.
        warnings.simplefilter("ignore")
        async with model_server(["One."]) as server:
            server.usage = dict.fromkeys(("prompt_tokens", "completion_tokens", "total_tokens"), number)
            async with editing(make(server, Tools(), context_size=5_000)) as editor:
                assert (await editor.ask(await editor.open()))["stopReason"] == "end_turn"
                assert all(0 < update["used"] < 2**54 for update in told_usage(editor))


def instructions(mode: str, text: str) -> dict[str, Any]:
    return {"mode": mode, "content": [{"type": "text", "text": text}]}


def system_of(server: ModelServer, request: int = -1) -> str:
    """What the model was told beside the conversation, which is in front of it."""
    roles = [role for role, _ in server.said_to(request)]
    first = [content for role, content in server.said_to(request) if role in ("system", "developer")]
    assert roles[: len(first)] == ["system"] * len(first), roles
    return "\n\n".join(first)


async def tells_its_model_what_the_client_says(make: Callable[..., Agent]) -> None:
    """In front of the conversation, also behind a load that says it anew, and as it is then."""
    replies = [[tool_call("look", {"word": "a"})], ["One."], ["Two."], ["Three."], ["Four."]]
    async with model_server(*replies) as server, editing(make(server, Tools())) as editor:
        session = await editor.open(systemPrompt=instructions("append", "Be short."))
        await editor.ask(session)
        assert ["Be short." in system_of(server, number) for number in (0, 1)] == [True, True]
        for told in ("Be long.", None):
            again = {} if told is None else {"systemPrompt": instructions("append", told)}
            await editor.client.result("session/load", setup(session) | again)
            await editor.ask(session)
            assert "Be short." not in system_of(server)
            assert told is None or told in system_of(server)
            assert [content for role, content in server.said_to(-1) if role == "assistant"][-1] in ("One.", "Two.")
        other = await editor.open()
        await editor.ask(other)
        assert "Be" not in system_of(server)


async def has_its_own_instructions_replaced(make: Callable[..., Agent]) -> None:
    """`make`: an agent that tells its model "Write French."."""
    async with (
        model_server(["One."], ["Two."], ["Three."]) as server,
        editing(make(server, Tools(), system_prompt="override")) as editor,
    ):
        for mode in ("append", "override"):
            session = await editor.open(systemPrompt=instructions(mode, "Be short."))
            await editor.ask(session)
            assert "Be short." in system_of(server)
            assert ("Write French." in system_of(server)) == (mode == "append")
        await editor.ask(await editor.open())
        assert system_of(server) == "Write French."


CONTRACT: list[Callable[..., Awaitable[None]]] = [
    answered_whole,
    cut_before_the_first_token,
    cut_in_the_middle_of_the_stream,
    cut_at_each_event_in_turn,
    cut_while_the_client_does_not_read,
    cut_in_a_running_tool,
    cut_in_a_waiting_approval,
    says_in_words_what_is_wrong_with_its_model,
    sessions_do_not_mix,
]
"""What a recipe promises, too."""

OF_ADAPTERS: list[Callable[..., Awaitable[None]]] = [
    *CONTRACT,
    tells_what_each_call_of_its_model_uses,
    takes_no_number_of_a_server_for_granted,
    tells_its_model_what_the_client_says,
]
