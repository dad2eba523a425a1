"""What the answer to a cancel has in it, field by field."""

import time

import pytest

from .inside import Api, begin, ids

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("how", ["stop", "drain"])
async def test_a_cancelled_chat_is_written_as_documented(api: Api, how: str) -> None:
    async with api(cancel=how) as http:
        before = int(time.time())
        began = (await begin(http, "slowly 20", body={"meta_data": {"a": "b"}}))["data"]
        answer = await http.post("/v3/chat/cancel", json=ids(began))
        after = int(time.time())
    body = answer.json()
    chat = body.pop("data")
    assert body == {"code": 0, "msg": "", "detail": {"logid": answer.headers["x-tt-logid"]}}
    # Only a chat whose agent has ended its work has been counted.
    assert chat.pop("usage", {}).keys() <= {"input_count", "output_count", "token_count"}
    assert before <= chat["created_at"] <= chat["completed_at"] <= after
    assert len(str(chat["completed_at"])) == 10
    # Nothing that is not set: no `failed_at`, no `required_action`.
    assert chat == {
        "id": began["id"],
        "conversation_id": began["conversation_id"],
        "bot_id": "1",
        "section_id": began["section_id"],
        "status": "canceled",
        "created_at": began["created_at"],
        "completed_at": chat["completed_at"],
        "last_error": {"code": 0, "msg": ""},
        "meta_data": {"a": "b"},
    }
