"""`Agent`: what is registered is there, and what cannot work is refused at once."""

import warnings
from typing import Any

import anyio
import pytest

from acp_server import Agent, Call, Limits, ResourceNotFound, Session, Turn
from acp_server.errors import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RESOURCE_NOT_FOUND, UsageError
from acp_server.testing import memory_pair
from tests.session.editor import END_TURN, editing

pytestmark = pytest.mark.anyio


def test_what_is_registered_twice_is_refused() -> None:
    agent = Agent("twice")

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    @agent.method("_m")
    async def method(call: Call) -> None: ...

    with pytest.raises(UsageError, match=r"a second @agent\.prompt; an agent can have only one"):
        agent.prompt(prompt)
    with pytest.raises(UsageError, match="_m is registered twice"):
        agent.method("_m")(method)
    with pytest.raises(UsageError, match="_m is registered twice"):
        agent.mount({"_m": method})


@pytest.mark.parametrize("wrong", [{"accepts": ["image", "video"]}, {"mcp": ["stdio"]}])
def test_what_cannot_be_announced_is_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="cannot announce"):
        Agent("wrong", **wrong)


@pytest.mark.parametrize("register", ["session", "set_mode", "set_config_option", "logout"])
def test_what_is_no_function_is_refused(register: str) -> None:
    with pytest.raises(UsageError, match="expected a function, got int"):
        getattr(Agent("wrong"), register)(7)


def test_decorators_return_the_function_itself() -> None:
    agent = Agent("plain")

    async def function(first: Any, *more: Any) -> None: ...

    for register in (
        agent.prompt,
        agent.session,
        agent.set_mode,
        agent.set_config_option,
        agent.logout,
        agent.authenticate("key", name="Key"),
    ):
        assert register(function) is function

    async def named(first: Any) -> None: ...

    for register in (agent.method("_m"), agent.notification("_n")):
        assert register(named) is named


@pytest.mark.parametrize("register", ["session", "set_mode", "set_config_option", "logout", "authenticate"])
@pytest.mark.parametrize("function", [lambda: None, lambda a, b, c, d: None, lambda *, call: None])
def test_a_function_that_cannot_be_called_with_what_it_is_for_is_refused(register: str, function: Any) -> None:
    agent = Agent("wrong")
    decorator = agent.authenticate("key", name="Key") if register == "authenticate" else getattr(agent, register)
    with pytest.raises(UsageError, match=r"the \w+ handler '.*<lambda>' must take (one|two|three) arguments?, the \w+"):
        decorator(function)


async def test_hooks_may_be_plain_async_or_callable_objects() -> None:
    agent = Agent("hooks")
    order: list[str] = []

    class Hook:
        async def __call__(self, session: Session) -> None:
            await anyio.lowlevel.checkpoint()
            order.append("object")

    @agent.session
    def plain(session: Session) -> None:
        order.append("plain")

    agent.session(Hook())

    @agent.session
    async def coroutine(session: Session) -> None:
        await anyio.lowlevel.checkpoint()
        order.append("async")

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    async with editing(agent) as editor:
        await editor.open()
        assert order == ["plain", "object", "async"]


async def test_a_method_of_ones_own_can_take_the_place_of_the_protocols() -> None:
    agent = Agent("replaces")

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    @agent.method("session/list", replace=True)
    async def listing(call: Call, cwd: str | None = None) -> Any:
        return {"sessions": [], "mine": cwd}

    async with editing(agent) as editor:
        assert await editor.client.result("session/list", {"cwd": "/a"}) == {"sessions": [], "mine": "/a"}
        assert await editor.ask(await editor.open()) == END_TURN


async def test_a_method_table_of_jsonrpcserver_can_be_mounted_as_it_is() -> None:
    with warnings.catch_warnings():
        # It reads its own files in a way that Python 3.11 deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        from jsonrpcserver import Error, JsonRpcError, Result, Success

    agent = Agent("mounted")

    async def add(a: int, b: int = 1) -> Result:
        return Success(a + b)

    async def refuse() -> Result:
        return Error(-31000, "no", {"why": "so"})

    async def raises() -> Result:
        raise JsonRpcError(-31001, "raised")

    async def crashes() -> Result:
        raise ValueError("secret")

    agent.mount({"add": add, "refuse": refuse, "raises": raises, "crashes": crashes})
    async with editing(agent) as editor:
        assert await editor.client.result("add", {"a": 1}) == 2
        assert await editor.client.result("add", [1, 2]) == 3
        assert (await editor.refusal("add", {"c": 1}))["code"] == INVALID_PARAMS
        assert await editor.refusal("refuse") == {"code": -31000, "message": "no", "data": {"why": "so"}}
        assert (await editor.refusal("raises"))["code"] == -31001
        assert await editor.refusal("crashes") == {
            "code": INTERNAL_ERROR,
            "message": "Internal error: the agent's log says why",
        }
        assert (await editor.refusal("subtract"))["code"] == METHOD_NOT_FOUND


async def test_a_method_can_find_the_session_it_is_about() -> None:
    agent = Agent("finds")

    @agent.prompt
    async def prompt(turn: Turn) -> None: ...

    @agent.method("_rename")
    async def rename(call: Call, sessionId: str, title: str) -> str:  # noqa: N803
        session = agent.find_session(call.connection, sessionId)
        await session.set_title(title)
        return session.cwd

    async with editing(agent) as editor, editing(agent) as other:
        session = await editor.open("/here")
        assert await editor.client.result("_rename", {"sessionId": session, "title": "T"}) == "/here"
        (update,) = editor.client.updates(session)
        assert update["title"] == "T"
        for who, id in ((editor, "nobody"), (other, session)):
            refused = await who.refusal("_rename", {"sessionId": id, "title": "T"})
            assert (refused["code"], refused["data"]) == (RESOURCE_NOT_FOUND, {"sessionId": id})
        connection = editor.connection
    with pytest.raises(ResourceNotFound):
        agent.find_session(connection, session)
    assert not agent.interrupt(connection)


async def test_the_limits_of_a_connection_are_those_it_was_made_with() -> None:
    _, there = memory_pair()
    agent = Agent("limits")
    assert agent.connect(there, Limits(line=99)).limits.line == 99
    assert agent.connect(there).limits == Limits()


async def test_a_tool_with_an_unknown_type_is_told_of_before_a_client_is_served() -> None:
    _, there = memory_pair()
    agent = Agent("unfinished")

    @agent.tool
    async def look(at: "Later") -> str:
        return at.name

    class Later:
        name: str

    with pytest.raises(UsageError, match=r"look: the type of at cannot be resolved: name 'Later' is not defined"):
        agent.connect(there)
