"""What a model says, piece by piece, in the events of Anthropic's API."""

import json
from typing import Any


class Anthropic:
    """One answer. A piece is text, a delta with a tool call as OpenAI's API has it, or None for the end."""

    def __init__(self, id: str = "m") -> None:
        self._id = id
        self._blocks = 0
        self._text = False
        self._reason = "end_turn"

    def piece(self, piece: Any) -> bytes:
        events: list[dict[str, Any]] = []
        if not self._blocks:
            usage = {"input_tokens": 3, "output_tokens": 0}
            message = {
                "id": self._id,
                "type": "message",
                "role": "assistant",
                "model": "test",
                "content": [],
                "usage": usage,
            }
            events.append({"type": "message_start", "message": {**message, "stop_reason": None}})
        if isinstance(piece, str):
            if not self._text:
                self._text = True
                events.append(self._begin({"type": "text", "text": ""}))
            events.append(self._delta({"type": "text_delta", "text": piece}))
        elif piece is not None:
            events += self._end_text()
            [call] = piece["tool_calls"]
            block = {"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": {}}
            events.append(self._begin(block))
            events.append(self._delta({"type": "input_json_delta", "partial_json": call["function"]["arguments"]}))
            events.append({"type": "content_block_stop", "index": self._blocks - 1})
            self._reason = "tool_use"
        else:
            events += self._end_text()
            delta = {"stop_reason": self._reason, "stop_sequence": None}
            events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 2}})
            events.append({"type": "message_stop"})
        return b"".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events)

    def _begin(self, block: dict[str, Any]) -> dict[str, Any]:
        self._blocks += 1
        return {"type": "content_block_start", "index": self._blocks - 1, "content_block": block}

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._blocks - 1, "delta": delta}

    def _end_text(self) -> list[dict[str, Any]]:
        if not self._text:
            return []
        self._text = False
        return [{"type": "content_block_stop", "index": self._blocks - 1}]
