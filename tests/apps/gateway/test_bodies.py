"""A body in which very much is wrong, or is there, is refused before all of it is looked at."""

from typing import Any

import pytest
from pydantic import ValidationError

from acp_server.apps.gateway import bodies
from acp_server.apps.gateway.bodies import ChatBody, ConversationBody, EnterMessage, SubmitBody, read
from acp_server.apps.gateway.errors import ApiError, Code

QUERY = {"role": "user", "content": "hi", "content_type": "text"}
CHAT = {"bot_id": "1", "user_id": "u"}
MANY = dict.fromkeys(map(str, range(1000)), 7)


@pytest.mark.parametrize("message", [QUERY, 0])
@pytest.mark.parametrize(("kind", "name"), [(ChatBody, "additional_messages"), (ConversationBody, "messages")])
def test_too_many_messages_are_refused_without_being_read(
    kind: Any, name: str, message: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_one(_data: Any) -> None:
        raise AssertionError("a message was read")

    monkeypatch.setattr(kind, "model_validate", read_one)
    with pytest.raises(ApiError) as refused:
        read(kind, {**CHAT, name: [message] * (bodies.MESSAGES + 1)})
    assert refused.value.code == Code.TOO_MANY_MESSAGES


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (ChatBody, {**CHAT, "additional_messages": [0] * 1000}),
        (ChatBody, {**CHAT, "meta_data": MANY}),
        (EnterMessage, {**QUERY, "meta_data": MANY}),
        (ConversationBody, {"messages": [0] * 1000}),
        (SubmitBody, {"tool_outputs": [0] * 1000}),
    ],
)
def test_a_body_is_read_up_to_its_first_wrong_item(kind: Any, data: Any) -> None:
    with pytest.raises(ValidationError) as wrong:
        kind.model_validate(data)
    assert wrong.value.error_count() == 1


def test_of_a_long_name_that_a_caller_made_up_the_beginning_is_told() -> None:
    with pytest.raises(ApiError) as refused:
        read(ChatBody, {**CHAT, "meta_data": {"k" * 100_000: 1}})
    assert refused.value.args[0].startswith("meta_data.kkk")
    assert len(refused.value.args[0]) < 400
