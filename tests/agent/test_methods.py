"""Functions of agent authors become methods: parameters and results. Threads: see `test_plain_methods`."""

import functools
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
import anyio.from_thread
import pydantic
import pytest

from acp_server import Agent, Call, Connection, schema
from acp_server.errors import INTERNAL_ERROR, INVALID_PARAMS, REQUEST_CANCELLED, UsageError
from tests.session.editor import editing

if TYPE_CHECKING:
    from nowhere import OnlyForTypeCheckers  # pyright: ignore[reportMissingImports]

pytestmark = pytest.mark.anyio

PROBLEM = Any


class Point(pydantic.BaseModel):
    x: int
    wireName: str = pydantic.Field(default="", alias="wire-name")  # noqa: N815


@dataclass
class Pair:
    left: Point
    right: list[Any]


async def outcome_of(agent: Agent, params: Any = None, method: str = "_m") -> Any:
    async with editing(agent) as editor:
        return await editor.answer(await editor.client.request(method, params))


# Parameters


async def test_parameters_are_checked_and_converted_and_defaults_are_the_functions_own() -> None:
    agent = Agent("typed")
    seen: list[Any] = []

    @agent.method("_m")
    async def method(
        call: Call,
        number: int,
        kind: Literal["a", "b"],
        point: Point,
        some: list[int] | None = None,
        limited: Annotated[int, pydantic.Field(ge=1)] = 1,
        *,
        keyword: str = "k",
        anything=None,
    ) -> None:
        seen.append((number, kind, point, some, limited, keyword, anything))

    params = {"number": 7, "kind": "b", "point": {"x": 1, "wire-name": "w"}, "unknown": 1, "_meta": {"number": 8}}
    assert await outcome_of(agent, {**params, "anything": [1]}) is None
    ((number, kind, point, *rest),) = seen
    assert (number, kind, point.x, point.wireName) == (7, "b", 1, "w")
    assert rest == [None, 1, "k", [1]]
    for wrong, path in (
        ({"number": "x"}, "number"),
        ({"kind": "c"}, "kind"),
        ({"point": {"x": "secret"}}, "point.x"),
        ({"some": [1, "x"]}, "some[1]"),
        ({"limited": 0}, "limited"),
    ):
        error = await outcome_of(agent, {**params, **wrong})
        assert error["code"] == INVALID_PARAMS
        assert error["data"]["problems"][0]["path"].startswith(path)
        assert "secret" not in str(error)
    error = await outcome_of(agent, {})
    assert [problem["path"] for problem in error["data"]["problems"]] == ["number", "kind", "point"]
    assert len(seen) == 1


@pytest.mark.parametrize("name", ["json", "schema", "copy", "model_config", "self", "class_", "_private", "validate"])
async def test_a_parameter_may_have_any_name(name: str) -> None:
    agent = Agent("named")
    scope: dict[str, Any] = {}
    exec(f"async def method(call, {name}: int, model_fields: int = 1): return {name} + model_fields", scope)
    agent.method("_m")(scope["method"])
    assert await outcome_of(agent, {name: 4}) == 5


async def test_unknown_parameters_go_where_the_function_collects_them() -> None:
    agent = Agent("open")

    @agent.method("_m")
    async def method(call: Call, known: int, **more: Any) -> Any:
        return [known, more, call.meta]

    assert await outcome_of(agent, {"known": 1, "b": 2, "_meta": {"m": 3}}) == [1, {"b": 2}, {"m": 3}]


async def test_the_first_parameters_type_need_not_exist_at_run_time() -> None:
    agent = Agent("lazy")

    async def method(call: "OnlyForTypeCheckers", point: "Point") -> "OnlyForTypeCheckers":
        return point.x

    agent.method("_m")(method)
    assert await outcome_of(agent, {"point": {"x": 3}}) == 3


async def test_anything_callable_may_be_a_method() -> None:
    agent = Agent("callables")

    class Counter:
        def __init__(self) -> None:
            self.count = 0

        async def add(self, call: Call, by: int) -> int:
            self.count += by
            return self.count

        async def __call__(self, call: Call) -> int:
            return self.count

    async def add(amount: int, call: Call, to: int) -> int:
        return amount + to

    counter = Counter()
    agent.method("_m")(counter.add)
    agent.method("_n")(counter)
    agent.method("_o")(functools.partial(add, 10))
    agent.method("_p")(lambda call: "lambda")
    async with editing(agent) as editor:
        assert await editor.client.result("_m", {"by": 2}) == 2
        assert await editor.client.result("_n") == 2
        assert await editor.client.result("_o", {"to": 1}) == 11
        assert await editor.client.result("_p") == "lambda"


def no_parameter() -> None: ...
def only_keywords(*, call: Call) -> None: ...
def number(a: int) -> None: ...
def positional_only(call: Call, a: int, /) -> None: ...
def many(call: Call, *args: int) -> None: ...
def unknown_type(call: Call, a: "OnlyForTypeCheckers") -> None: ...
async def generator(call: Call) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("function", "complaint"),
    [
        (no_parameter, "needs a first parameter"),
        (only_keywords, "needs a first parameter"),
        (number, "^the runtime passes the call as the first argument of 'number', but its first parameter is a: int$"),
        (positional_only, "the parameter a cannot be passed by name"),
        (many, "the parameter args cannot be passed by name"),
        (unknown_type, "the type of a cannot be resolved: name 'OnlyForTypeCheckers' is not defined"),
        (generator, "must return its result, not yield it"),
        (5, "^expected a function, got 5: "),
        (dict, "^expected a function, got <class 'dict'>: "),
        (lambda call: (yield), "must return its result, not yield it"),
    ],
)
def test_a_function_that_cannot_be_a_method_is_refused_when_it_is_registered(function: Any, complaint: str) -> None:
    for register in (Agent("wrong").method, Agent("wrong").notification):
        with pytest.raises(UsageError, match=complaint.replace("the call", "the c\\w+")):
            register("_m")(function)


# Results


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ([1, "a", {"b": (2, 3)}], [1, "a", {"b": [2, 3]}]),
        (Point(**{"x": 1, "wire-name": "w"}), {"x": 1, "wire-name": "w"}),
        (schema.TextContent(text="t"), {"type": "text", "text": "t"}),
        (
            {"deep": [schema.TextContent(text="t"), Pair(Point(x=1), [Point(x=2)])]},
            {
                "deep": [
                    {"type": "text", "text": "t"},
                    {"left": {"x": 1, "wire-name": ""}, "right": [{"x": 2, "wire-name": ""}]},
                ]
            },
        ),
        (float("nan"), None),
    ],
)
async def test_whatever_json_can_express_may_be_a_result(value: Any, expected: Any) -> None:
    agent = Agent("results")

    @agent.method("_m")
    async def method(call: Call) -> Any:
        return value

    assert await outcome_of(agent) == expected


@pytest.mark.behaviour("A14")
async def test_a_result_that_json_cannot_express_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    agent = Agent("results")

    @agent.method("_m")
    async def method(call: Call) -> Any:
        return {"secret": {1, object()}}

    assert await outcome_of(agent) == {"code": INTERNAL_ERROR, "message": "Internal error: the agent's log says why"}
    assert "cannot be expressed in JSON" in caplog.text


async def test_a_partial_result_is_the_answer_of_a_cancelled_method() -> None:
    agent = Agent("partial")

    @agent.method("_m")
    async def method(call: Call, partial: bool) -> None:
        if partial:
            call.partial({"done": 1})
            call.partial({"done": 2})
        await anyio.sleep_forever()

    async with editing(agent) as editor:
        ids = [await editor.client.request("_m", {"partial": partial}) for partial in (True, False)]
        await editor.settled()
        for id in ids:
            await editor.withdraw(id)
        assert await editor.answer(ids[0]) == {"done": 2}
        assert await editor.code(ids[1]) == REQUEST_CANCELLED


# Notifications


@pytest.mark.behaviour("A5", "I2")
async def test_notifications_reach_every_handler_in_order_and_none_is_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent("notified")
    seen: list[Any] = []

    @agent.notification("_n")
    async def slowly(connection: Connection, a: int) -> None:
        await anyio.wait_all_tasks_blocked()
        seen.append(("async", a))

    @agent.notification("_n")
    def plainly(connection: Connection, a: int, **more: Any) -> str:
        seen.append(("plain", a, more))
        if a == 2:
            raise ValueError("of the handler")
        return "nobody looks at this"

    async with editing(agent) as editor:
        for params in ({"a": 1, "b": 2}, {"a": "x"}, None, [1], {"a": 2}, {"a": 3, "_meta": {}}):
            await editor.client.notify("_n", params)
        while len(seen) < 6:
            await anyio.wait_all_tasks_blocked()
        await editor.settled()
        assert [entry[:2] for entry in seen] == [(kind, a) for a in (1, 2, 3) for kind in ("async", "plain")]
        assert seen[1] == ("plain", 1, {"b": 2})
        assert len(editor.client.received) == 3
    assert caplog.text.count("invalid parameters for") == 6
    assert caplog.text.count("Traceback") == 1
    assert "ValueError: of the handler" in caplog.text


@pytest.mark.odd_shapes  # an author whose session/new answers nothing
@pytest.mark.parametrize(
    ("method", "answer"),
    [("session/close", {}), ("session/load", {}), ("auth/login", {}), ("session/new", None), ("_own", None)],
)
async def test_none_answers_an_empty_object_where_the_result_may_be_empty(method: str, answer: Any) -> None:
    agent = Agent("silent")

    @agent.method(method, replace=not method.startswith("_"))
    async def silent(call: Call) -> None: ...

    message = await outcome_of(agent, {}, method)
    assert message == answer
