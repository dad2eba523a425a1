"""The tokens of a chat, from either place in which agents tell those of a turn."""

from typing import Any

import pytest

from acp_server.apps.gateway.prompt_turn import _reported
from acp_server.apps.gateway.records import TokenUsage
from acp_server.schema import PromptResponse

TOKENS = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 6}


@pytest.mark.parametrize(
    ("answer", "counted"),
    [
        ({"usage": TOKENS}, TokenUsage(input_count=3, output_count=2, token_count=6)),
        ({"_meta": {"usage": TOKENS}}, TokenUsage(input_count=3, output_count=2, token_count=6)),
        ({"_meta": {"usage": {"inputTokens": 3, "outputTokens": True}}}, TokenUsage(input_count=3, token_count=3)),
        ({"usage": "many", "_meta": {"usage": "many"}}, None),
        ({}, None),
    ],
)
def test_the_tokens_of_an_answer_are_counted(answer: dict[str, Any], counted: TokenUsage | None) -> None:
    assert _reported(PromptResponse.from_wire({"stopReason": "end_turn", **answer})) == counted
