"""Wrong values for an agent are refused when the program starts, in words that say what is wanted."""

import subprocess
import sys
from typing import Any

import pytest

from acp_server import Agent, MemoryStore, SessionApprovals
from acp_server.errors import UsageError
from acp_server.schema import SessionConfigBoolean, SessionConfigSelect, SessionConfigSelectOption, SessionMode
from acp_server.schema.features import FEATURES
from acp_server.schema.methods import METHODS
from acp_server.schema.v2.methods import METHODS as METHODS_V2


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        (None, {}, "the name of an agent must be a string, not None"),
        ("", {}, "the name of an agent must not be empty"),
        ("a", {"version": 1.0}, "the version of an agent must be a string, not 1.0"),
        ("a", {"title": 5}, "the title of an agent must be a string, not 5"),
        ("a", {"store": "x.db"}, "store must be an object with the methods save, load, list, delete, but 'x.db' "),
        ("a", {"store": MemoryStore}, "store must be an object .+, not a class"),
        ("a", {"approvals": True}, "approvals must be an object with the methods get, put, but True lacks"),
        ("a", {"accepts": "image"}, "accepts must be a list of strings, not 'image'"),
        ("a", {"accepts": [["image"]]}, "accepts must be a list of strings"),
        ("a", {"mcp": "http"}, "mcp must be a list of strings, not 'http'"),
        ("a", {"mcp": 1}, "mcp must be a list of strings, not 1"),
        ("a", {"versions": 1}, "versions must be a list of numbers, not 1"),
        ("a", {"versions": "12"}, "versions must be a list of numbers, not '12'"),
    ],
)
def test_what_an_agent_cannot_be_made_of_is_refused(name: Any, more: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        Agent(name, **more)


def test_what_an_agent_can_be_made_of_is_taken() -> None:
    agent = Agent("a", version="", title="A", store=MemoryStore(), approvals=SessionApprovals(), accepts=("image",))
    assert agent.name == "a"
    Agent("b", accepts={"audio"}, mcp=False, versions={2})
    wrong: Any = "x.db"
    with pytest.raises(UsageError, match="store must be an object"):
        agent.store = wrong


def test_what_is_no_mode_and_no_option_is_refused_when_it_is_offered() -> None:
    wrong: Any = "ask"
    with pytest.raises(UsageError, match=r"a mode must be a SessionMode of acp_server\.schema, not 'ask'"):
        Agent("a").modes(wrong)
    with pytest.raises(UsageError, match=r"a config option must be a SessionConfigSelect or .+, not 'ask'"):
        Agent("a").config_options(wrong)


SMALL = [SessionConfigSelectOption(value="small", name="Small"), SessionConfigSelectOption(value="big", name="Big")]
MODEL = SessionConfigSelect(id="model", name="Model", current_value="small", options=SMALL)
LOUD = SessionConfigBoolean(id="model", name="Loud", current_value=False)


def test_a_config_option_whose_default_is_none_of_its_values_is_refused() -> None:
    huge = SessionConfigSelect(id="m", name="M", current_value="huge", options=SMALL)
    words = "the current_value 'huge' of the config option 'm' is not one of its values: 'small', 'big'"
    with pytest.raises(UsageError, match=words):
        Agent("a").config_options(huge)
    empty = SessionConfigSelect(id="m", name="M", current_value="huge", options=[])
    with pytest.raises(UsageError, match="its values: none"):
        Agent("a").config_options(empty)


def test_two_modes_or_two_options_with_one_id_are_refused_also_one_after_the_other() -> None:
    agent = Agent("a")
    agent.config_options(MODEL)
    with pytest.raises(UsageError, match="there are two config options with the id 'model'"):
        agent.config_options(LOUD)
    with pytest.raises(UsageError, match="there are two config options with the id 'model'"):
        Agent("b").config_options(LOUD, MODEL)
    ask = SessionMode(id="ask", name="Ask")
    with pytest.raises(UsageError, match="there are two modes with the id 'ask', which a client could not tell apart"):
        agent.modes(ask, ask)
    agent.modes(ask)
    with pytest.raises(UsageError, match="there are two modes"):
        agent.modes(ask)


UNSTABLE = {method for each in FEATURES.values() if each.state == "unstable" for method in each.methods}


@pytest.mark.parametrize("name", sorted((METHODS.keys() | METHODS_V2.keys()) - {"initialize"} - UNSTABLE))
def test_a_method_of_the_protocol_is_not_replaced_by_accident(name: str) -> None:
    agent = Agent("a")
    with pytest.raises(UsageError, match=r"name your own method with a leading _, or pass replace=True"):
        agent.method(name)
    with pytest.raises(UsageError, match="is a method of the protocol"):
        agent.mount({name: lambda: None})  # pyright: ignore[reportArgumentType]
    agent.method(name, replace=True)


@pytest.mark.parametrize("replace", [False, True])
def test_initialize_is_changed_and_not_replaced(replace: bool) -> None:
    with pytest.raises(UsageError, match=r"initialize cannot be replaced: @agent\.initialize changes"):
        Agent("a").method("initialize", replace=replace)


@pytest.mark.parametrize("decorator", ["method", "notification"])
def test_a_decorator_that_needs_a_name_says_so_where_it_has_none(decorator: str) -> None:
    register: Any = getattr(Agent("a"), decorator)
    with pytest.raises(UsageError, match=r"expected the name of a method, .+, got a function"):
        register(lambda call: None)
    with pytest.raises(UsageError, match="got ''"):
        register("")


def test_an_agent_is_made_without_the_models() -> None:
    program = "import sys; from acp_server import Agent; Agent('a'); assert 'pydantic' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
