"""What is offered most often, made in one line."""

from typing import Any

import pytest

from acp_server.schema import PermissionOption, SessionConfigSelect


def test_an_option_has_its_values_with_names_for_the_user() -> None:
    option = SessionConfigSelect.of("max_turns", ["few", "very_many"])
    assert option.to_wire() == {
        "id": "max_turns",
        "name": "Max turns",
        "type": "select",
        "currentValue": "few",
        "options": [{"value": "few", "name": "Few"}, {"value": "very_many", "name": "Very many"}],
    }


def test_a_mapping_names_the_values_and_all_else_can_be_said() -> None:
    values = {"s": "Small", "l": "Large"}
    option = SessionConfigSelect.of(
        "model", values, name="LLM", current="l", description="Which one answers.", category="model"
    )
    assert [{"value": value, "name": name} for value, name in values.items()] == option.to_wire()["options"]
    assert (option.name, option.current_value, option.category) == ("LLM", "l", "model")


@pytest.mark.parametrize("values", [[], {}, "small"])
def test_an_option_without_several_values_is_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="a config option needs a list of values to choose from"):
        SessionConfigSelect.of("model", values)


def test_yes_or_no_is_for_this_once() -> None:
    yes, no = PermissionOption.yes_or_no("Apply", "Leave it")
    assert (yes.name, yes.kind) == ("Apply", "allow_once")
    assert (no.name, no.kind) == ("Leave it", "reject_once")
