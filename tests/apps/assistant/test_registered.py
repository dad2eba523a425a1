"""Which of its arguments a function of an `AssistantTool` gets."""

import functools
from dataclasses import dataclass
from typing import Any, Optional

import pytest
from pydantic import BaseModel

from acp_server import ToolContext, UserAction
from acp_server.apps.assistant.functions import Registered
from acp_server.errors import InvalidParams, UsageError
from acp_server.tools.editor import BlockingEditor, Editor
from tests.apps.assistant.assistants import EDIT, PLAIN, Case

pytestmark = pytest.mark.anyio

ALL = ("params", "user_action", "editor")
GIVEN = ("P", "A", "E")


async def got(function: Any) -> Any:
    return await Registered(function, ALL).call(*GIVEN, call="C")


async def test_arguments_are_passed_by_their_names() -> None:
    assert await got(lambda editor: editor) == "E"
    assert await got(lambda editor, params: (editor, params)) == ("E", "P")
    assert await got(lambda userAction, params: (userAction, params)) == ("A", "P")  # noqa: N803
    assert await got(lambda params, *, editor: (params, editor)) == ("P", "E")


async def test_parameters_with_other_names_get_what_is_left_in_order() -> None:
    assert await got(lambda given: given) == "P"
    assert await got(lambda given, action, provider: (given, action, provider)) == GIVEN
    assert await got(lambda given, editor: (given, editor)) == ("P", "E")
    assert await got(lambda *given: given) == GIVEN
    assert await got(lambda first, *others: (first, others)) == ("P", ("A", "E"))
    assert await got(lambda: "nothing") == "nothing"


async def test_a_parameter_with_a_default_is_not_filled_with_what_it_does_not_ask_for() -> None:
    assert await got(lambda params, factor=3: (params, factor)) == ("P", 3)
    assert await got(lambda params, factor=3, editor=None: (params, factor, editor)) == ("P", 3, "E")
    assert await got(lambda params, factor=3, editor=None, /: (params, factor, editor)) == ("P", 3, "E")
    assert await got(functools.partial(lambda params, factor: (params, factor), factor=4)) == ("P", 4)


async def test_arguments_are_passed_by_their_types() -> None:
    async def typed(ed: Editor | None = None, act: "UserAction | None" = None, **_: Any) -> Any:
        return ed, act

    def others(call_it: ToolContext, p: Any, files: Optional[BlockingEditor] = None) -> Any:  # noqa: UP045
        return call_it, p, files

    assert await got(typed) == ("E", "A")
    assert await got(others) == ("C", "P", "E")
    assert await got(lambda params, call: (params, call)) == ("P", "C")


def test_what_nothing_is_there_for_is_refused() -> None:
    for function in (lambda a, b, c, d: None, lambda params, *, factor: None):
        with pytest.raises(UsageError, match="has no value"):
            Registered(function, ALL)


async def test_a_function_that_wants_the_running_call_gets_it_and_not_an_editor() -> None:
    case = Case(EDIT | {"requireApproval": False})
    case.arguments = {"path": "a"}
    seen: list[str] = []

    async def execute(params: dict[str, Any], call: ToolContext) -> dict[str, Any]:
        call.progress("under way")
        seen.append(call.id)
        return {"success": True, "message": params["path"]}

    test = case.tool.register_execute_tool(execute)
    assert await case.run() == ("completed", "a")
    assert seen == ["c1"]

    async def tried(call: ToolContext) -> dict[str, Any]:
        return {"success": not call.is_cancelled, "message": "tried"}

    test = Case(PLAIN).tool.register_execute_tool(tried)
    assert await test({}) == {"success": True, "message": "tried"}


@dataclass
class Query:
    query: str
    most: int = 3


class QueryModel(BaseModel):
    query: str
    most: int = 3


class DeferredModel(QueryModel, defer_build=True):
    """One that pydantic builds no check for before it is used."""


@pytest.mark.parametrize("kind", [Query, QueryModel, DeferredModel])
@pytest.mark.parametrize("plain", [False, True])
async def test_params_become_the_dataclass_or_model_that_they_are_annotated_with(kind: Any, plain: bool) -> None:
    case = Case(PLAIN)
    case.arguments = {"query": "needle"}

    def execute(params: kind) -> dict[str, Any]:  # pyright: ignore[reportInvalidTypeForm]
        assert isinstance(params, kind)
        return {"success": True, "message": f"{params.query} {params.most}"}

    async def execute_async(wanted: kind) -> dict[str, Any]:  # pyright: ignore[reportInvalidTypeForm]
        return execute(wanted)

    case.tool.register_execute_tool(execute if plain else execute_async)
    assert await case.run() == ("completed", "needle 3")


async def test_params_that_do_not_fit_the_annotation_are_a_failure_that_says_so_and_nothing_runs() -> None:
    case = Case(PLAIN)

    def execute(params: Query) -> dict[str, Any]:
        raise AssertionError

    case.tool.register_execute_tool(execute)
    assert await case.run() == ("failed", "The arguments are invalid: query Field required")
    with pytest.raises(InvalidParams):
        await Registered(execute, ("params",)).call({"query": 1})


async def test_an_annotation_that_only_type_checkers_know_changes_nothing() -> None:
    async def execute(params: "Unknown") -> Any:  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
        return params

    assert await got(execute) == "P"
