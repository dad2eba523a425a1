"""What the application has around the API's own calls: probes, numbers, pages of other origins, escaped slashes."""

import re

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from acp_server.apps.gateway.app import ROUTES

from .inside import Api, begin, ended
from .serving import TOKEN

pytestmark = pytest.mark.anyio

PAGE = "https://app.example.org"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def numbers(http: httpx.AsyncClient) -> dict[str, float]:
    answer = await http.get("/metrics")
    assert answer.status_code == 200
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            found[sample.name + "".join(f",{value}" for value in sample.labels.values())] = sample.value
    return found


async def test_a_probe_wants_no_token_and_the_numbers_want_one_that_permits_them(api: Api) -> None:
    async with api() as http:
        for token, status in ((TOKEN, 200), ("pat_of_reader", 403), ("nobody", 401)):
            http.headers["Authorization"] = f"Bearer {token}"
            assert (await http.get("/metrics")).status_code == status
        del http.headers["Authorization"]
        assert (await http.get("/metrics")).status_code == 401
        for path in ("/healthz", "/readyz"):
            answer = await http.get(path)
            assert (answer.status_code, answer.text) == (200, "ok")


async def test_the_numbers_tell_of_chats_agents_latencies_and_refusals(api: Api) -> None:
    async with api() as http, api() as other:
        hanging = (await begin(http, "hang"))["data"]
        await ended(http, (await begin(http, "echo x"))["data"])
        await http.post("/v3/chat/cancel", json={"conversation_id": hanging["conversation_id"], "chat_id": "0"})
        found = await numbers(http)
        assert found["acp_gateway_chats,in_progress"] == 1
        assert found["acp_gateway_agents,every other"] == 1
        assert found["acp_gateway_queue,every other"] == 0
        assert found["acp_gateway_chat_seconds_count,completed"] == 1
        assert found["acp_gateway_request_seconds_count,/v3/chat"] == 2
        assert found["acp_gateway_refusals_total,4001"] == 1
        # Each gateway has its own.
        assert "acp_gateway_chat_seconds_count,completed" not in await numbers(other)


async def test_no_client_can_make_a_label(api: Api) -> None:
    async with api() as http:
        for number in range(20):
            await http.get(f"/nothing/{number}")
            await http.request(f"M{number}", "/v3/chat")
        found = await numbers(http)
    assert found["acp_gateway_request_seconds_count,other"] >= 40
    assert len([name for name in found if name.startswith("acp_gateway_request_seconds_count")]) == 1


async def test_a_page_of_an_origin_that_is_allowed_may_read_answers_and_others_may_not(api: Api) -> None:
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,content-type"}
    async with api(allow_origins=[PAGE]) as http:
        before = await http.options("/v3/chat", headers={"Origin": PAGE, **asks})
        assert before.status_code == 200
        assert before.headers["Access-Control-Allow-Origin"] == PAGE
        answer = await http.get("/v3/chat/retrieve", headers={"Origin": PAGE})
        assert answer.headers["Access-Control-Allow-Origin"] == PAGE
        assert "x-tt-logid" in answer.headers["Access-Control-Expose-Headers"]
        strange = await http.options("/v3/chat", headers={"Origin": "https://evil.example.org", **asks})
        assert strange.status_code == 400
        assert "Access-Control-Allow-Origin" not in strange.headers


async def test_without_an_allowed_origin_there_is_no_word_of_origins(api: Api) -> None:
    async with api() as http:
        answer = await http.get("/v3/chat/retrieve", headers={"Origin": PAGE})
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(("method", "path"), [(method, path) for method, path, *_ in ROUTES])
async def test_a_slash_that_is_escaped_parts_nothing(api: Api, method: str, path: str) -> None:
    path = re.sub(r"\{.*\}", "1", path)
    async with api(agent=None) as http:
        for escaped in ("%2f", "%2F"):
            head, _, tail = path.rpartition("/")
            answer = await http.request(method, f"{head}{escaped}{tail}")
            assert (answer.status_code, answer.json()["code"]) == (404, 4200)
