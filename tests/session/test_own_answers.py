"""What an author adds to answers and to `initialize`, on both versions, and what handlers see of what came in."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio
import pytest

from acp_server import Agent, Answer, Call, Initialization, RpcError, Session, Turn, UsageError
from acp_server.errors import EncodeError
from acp_server.schema import NewSessionResponse, SessionMode
from tests.session import editor as v1
from tests.session.editor import CANCELLED, END_TURN, Editor
from tests.session.v2 import editor as v2

Editing = Callable[[Agent], AbstractAsyncContextManager[Editor]]
BOTH = pytest.mark.parametrize("editing", [v1.editing, v2.editing], ids=["v1", "v2"])


@BOTH
@pytest.mark.anyio
@pytest.mark.odd_shapes
async def test_the_answer_that_opens_a_session_has_what_its_handler_adds(editing: Editing) -> None:
    agent = Agent("own")

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    @agent.session
    async def opened(session: Session) -> None:
        assert session.call is not None
        session.answer["models"] = {"currentModelId": "m", "availableModels": []}
        session.answer.meta["workspace_trust"] = session.call.params["_meta"]["trust"]

    async with editing(agent) as editor:
        asked = {"cwd": "/project", "mcpServers": [], "_meta": {"trust": "full"}, "unknown": 1}
        answer = await editor.client.result("session/new", asked)
        assert answer.pop("sessionId").startswith("sess_")
        assert answer == {
            "models": {"currentModelId": "m", "availableModels": []},
            "_meta": {"workspace_trust": "full"},
        }


@pytest.mark.anyio
async def test_so_have_load_resume_and_close_each_its_own() -> None:
    agent = Agent("own")
    kept: list[Session] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    @agent.session
    async def opened(session: Session) -> None:
        kept.append(session)
        session.answer.meta["origin"] = session.origin
        session.on_close(lambda: session.answer.meta.update(closed=True))

    async with v1.editing(agent) as editor:
        id = await editor.open()
        assert kept[0].call is None
        with pytest.raises(UsageError, match=r"session\.answer exists only while a request"):
            assert kept[0].answer
        known = {"sessionId": id, "cwd": "/project", "mcpServers": []}
        assert await editor.client.result("session/load", known) == {"_meta": {"origin": "load"}}
        assert await editor.client.result("session/resume", known) == {"_meta": {"origin": "resume"}}
        assert await editor.client.result("session/close", {"sessionId": id}) == {"_meta": {"closed": True}}


@BOTH
@pytest.mark.anyio
async def test_the_end_of_a_turn_has_what_its_handler_adds_also_if_it_is_cancelled(editing: Editing) -> None:
    agent = Agent("own")
    waits = anyio.Event()

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turn.answer["userMessageId"] = turn.params["messageId"]
        turn.answer.meta["feedback"] = True
        turn.add_usage(input_tokens=1, output_tokens=2)
        if turn.text == "wait":
            waits.set()
            await anyio.sleep_forever()

    usage = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
    added = {"userMessageId": "m1", "_meta": {"feedback": True, "usage": usage}}
    async with editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session, messageId="m1") == {**END_TURN, **added}
        async with anyio.create_task_group() as group:

            async def stop() -> None:
                await waits.wait()
                await editor.cancel(session)

            group.start_soon(stop)
            assert await editor.ask(session, "wait", messageId="m1") == {**CANCELLED, **added}


@pytest.mark.anyio
async def test_logins_modes_options_and_methods_add_to_theirs() -> None:
    agent = Agent("own")
    agent.modes(SessionMode(id="a", name="A"), SessionMode(id="b", name="B"))

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    @agent.authenticate("key", name="Key")
    async def login(call: Call) -> None:
        call.answer.meta["browser-auth"] = {"url": "https://example.org"}

    @agent.set_mode
    async def set_mode(session: Session, mode: str) -> None:
        session.answer.meta["mode"] = mode

    @agent.method("_list")
    async def listed(call: Call, of: str) -> dict[str, Any]:
        call.answer.meta["of"] = of
        call.partial({"found": []})
        if of == "all":
            call.cancel()
            await anyio.sleep_forever()
        return {"_meta": {"of": "mine", "more": 1}}

    async with v1.editing(agent) as editor:
        answer = await editor.client.result("authenticate", {"methodId": "key"})
        assert answer == {"_meta": {"browser-auth": {"url": "https://example.org"}}}
        session = await editor.open()
        chosen = await editor.client.result("session/set_mode", {"sessionId": session, "modeId": "b"})
        assert chosen == {"_meta": {"mode": "b"}}
        assert await editor.client.result("_list", {"of": "some"}) == {"_meta": {"of": "mine", "more": 1}}
        # An error has no place for it.
        assert (await editor.refusal("_list", {"of": "all"}))["code"] == -32800


def test_a_member_of_the_protocol_is_not_the_author_s_to_add() -> None:
    answer = Answer("session/new")
    for name in ("sessionId", "modes", "configOptions"):
        with pytest.raises(UsageError, match=f"the runtime sets '{name}' of the response to session/new"):
            answer[name] = {}
    with pytest.raises(UsageError, match="_meta must be a dict"):
        answer["_meta"] = 1
    with pytest.raises(EncodeError):
        answer["strange"] = object()
    assert not answer


@pytest.mark.anyio
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("unstable", [(), ("end_turn_usage",)])
async def test_an_agent_says_the_tokens_of_a_turn_itself_unless_the_runtime_does(counted: bool, unstable: Any) -> None:
    agent = Agent("own", unstable=unstable)
    tokens = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turn.answer["usage"] = tokens
        with pytest.raises(UsageError, match="the runtime sets 'stopReason' of the response to session/prompt"):
            turn.answer["stopReason"] = "refusal"
        if counted:
            turn.add_usage(input_tokens=10, output_tokens=20)

    async with v1.editing(agent) as editor:
        answer = await editor.ask(await editor.open(), "x")
    assert answer["stopReason"] == "end_turn"
    assert answer["usage"]["totalTokens"] == (30 if counted and unstable else 3)


def test_what_the_runtime_says_stands_and_a_result_without_additions_is_untouched() -> None:
    answer = Answer("_own")
    result = {"a": 1}
    assert answer.added_to(result) is result
    answer["a"] = 2
    answer["b"] = 3
    assert answer.added_to(result) == {"a": 1, "b": 3}
    assert answer.added_to(None) == {"a": 2, "b": 3}
    assert answer.added_to([1]) == [1]
    answer.meta["c"] = 4
    whole = answer.added_to(NewSessionResponse(session_id="s", meta={"d": 5}))
    assert whole == {"a": 2, "b": 3, "sessionId": "s", "_meta": {"c": 4, "d": 5}}
    answer.meta["c"] = object()
    assert answer.added_to(result) is result


@BOTH
@pytest.mark.anyio
async def test_initialize_sees_what_the_client_is_and_decides_what_it_is_told(editing: Editing) -> None:
    agent = Agent("own")
    seen: list[Initialization] = []

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    @agent.authenticate("key", name="Key")
    async def login(call: Call) -> None: ...

    @agent.initialize
    def changed(initialization: Initialization) -> None:
        seen.append(initialization)
        initialization.capabilities["_meta"] = {"fork": {}}
        initialization.auth_methods[0]["_meta"] = {"terminal-auth": {"command": "x"}}
        initialization.meta["host"] = "me"

    async with editing(agent) as editor:
        for _ in range(2):
            params = {"protocolVersion": 1 if editing is v1.editing else 2, "info": {"name": "e", "version": "1"}}
            answer = await editor.client.result("initialize", {"capabilities": {}, "_meta": {"x": 1}, **params})
            capabilities = answer["agentCapabilities" if editing is v1.editing else "capabilities"]
            assert capabilities["_meta"] == {"fork": {}}
            assert answer["authMethods"][0]["_meta"] == {"terminal-auth": {"command": "x"}}
            assert answer["_meta"] == {"host": "me"}
    assert seen[-1].call.params["_meta"] == {"x": 1}
    assert seen[-1].version == (1 if editing is v1.editing else 2)
    # What it changed was told to one client, and is not the agent's from now on.
    assert "_meta" not in agent._definition.auth_methods[0]


@pytest.mark.anyio
async def test_what_the_initialize_handler_raises_is_the_answer() -> None:
    agent = Agent("own")

    @agent.initialize
    async def refuse(initialization: Initialization) -> None:
        raise RpcError("Not this client", code=-32000)

    async with v1.editing(agent, initialize=False) as editor:
        refusal = await editor.refusal("initialize", {"protocolVersion": 1})
        assert refusal == {"code": -32000, "message": "Not this client"}


@pytest.mark.anyio
async def test_meta_that_is_only_looked_at_is_not_told() -> None:
    agent = Agent("own")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        turn.answer.meta.update({})
        if turn.text == "more":
            turn.answer["more"] = 1

    async with v1.editing(agent) as editor:
        session = await editor.open()
        assert await editor.ask(session) == END_TURN
        assert await editor.ask(session, "more") == {**END_TURN, "more": 1}
