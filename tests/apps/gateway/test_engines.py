"""What every engine of the store does with rows and transactions. Each test runs over each engine."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from acp_server.apps.gateway.messages import ChatMessage
from acp_server.apps.gateway.records import Chat, Conversation, Failure, KnownSession, Status, TokenUsage
from acp_server.apps.gateway.rows import Rows
from acp_server.apps.gateway.store import Engine, Store, open_engine

Open = Callable[[], Engine]


@pytest.fixture(params=["memory", "file", "postgresql"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens an engine on what the one before it has left, where it leaves something."""
    if request.param == "memory":
        return lambda: open_engine(None)
    if request.param == "file":
        return lambda: open_engine(tmp_path / "store")
    url = request.getfixturevalue("postgresql").database()
    return lambda: open_engine(url)


@pytest.fixture
def engine(opens: Open) -> Iterator[Engine]:
    engine = opens()
    yield engine
    engine.close()


@pytest.fixture
def store(engine: Engine) -> Store:
    return Store(engine)


def conversation(id: str, owner: str = "ada", **fields: Any) -> Conversation:
    return Conversation(id, owner, "1", 0, 0, **fields)


def message(id: str, conversation_id: str = "1", **fields: Any) -> ChatMessage:
    given: dict[str, Any] = {"role": "user", "type": "question", "content": "x", **fields}
    return ChatMessage(id=id, conversation_id=conversation_id, section_id="1", **given)


# -- records


ODD = "half of a pair \ud800, a null \0, a quote ' and a percent sign %s ?"


def test_records_come_back_as_they_were_put_there(engine: Engine) -> None:
    one = conversation("1", bot_id="7", name=ODD, meta_data={"k": ODD})
    chat = Chat("2", "1", "3", "4", "ada", query_id="5", meta_data={"k": ODD}, tool_calls=[{"id": ODD}])
    said = message("6", content=ODD, meta_data={"k": ODD}, given=True)
    engine.transact(lambda rows: (rows.add_conversation(one), rows.add_chat(chat), rows.add_message(said)))
    assert engine.transact(lambda rows: rows.conversation("1")) == one
    assert engine.transact(lambda rows: rows.chat("2")) == chat
    assert engine.transact(lambda rows: rows.message("1", "6")) == said
    one.know(KnownSession("b", "s", "k"))
    running = chat.moved(Status.IN_PROGRESS)
    assert running is not None
    failed = running.moved(Status.FAILED, usage=TokenUsage(1, 2, 3), error=Failure(5000, ODD))
    assert failed is not None
    engine.transact(lambda rows: (rows.change_conversation(one), rows.overwrite_chat(failed)))
    assert engine.transact(lambda rows: (rows.conversation("1"), rows.chat("2"))) == (one, failed)


def test_what_is_not_there_is_not_found(engine: Engine) -> None:
    def look(rows: Rows) -> list[Any]:
        page = rows.listed("1", descending=True, chat_id="", before="", after="", limit=9, most=9)
        found = [rows.conversation("1"), rows.chat("1"), rows.message("1", "1"), rows.last_said("1", "1")]
        return [*found, rows.has_place("1", "1"), rows.produced("1"), page, rows.context("1", "1", most=9)]

    assert engine.transact(look) == [None, None, None, None, False, [], ([], False), ([], [])]


def test_conversations_of_one_owner_come_the_newest_first(engine: Engine) -> None:
    def add(rows: Rows) -> None:
        for id, owner, bot in ("9", "ada", "x"), ("10", "ada", "y"), ("11", "bob", "x"), ("100", "ada", "x"):
            rows.add_conversation(conversation(id, owner, bot_id=bot))
        rows.add_conversation(conversation("101", deleted=True))

    engine.transact(add)

    def ids(*place: Any) -> list[str]:
        return [each.id for each in engine.transact(lambda rows: rows.conversations("ada", *place))]

    assert ids(None, 0, 9) == ["100", "10", "9"]
    assert ids(None, 1, 1) == ["10"]
    assert ids("x", 0, 9) == ["100", "9"]
    assert [each.id for each in engine.transact(Rows.deleted_conversations)] == ["101"]


def test_a_row_with_an_id_that_there_is_already_is_refused_and_changes_nothing(engine: Engine) -> None:
    ada = conversation("1")
    chat = Chat("2", "1", "1", "1", "ada")
    engine.transact(lambda rows: (rows.add_conversation(ada), rows.add_chat(chat)))
    for add in (
        lambda rows: rows.add_conversation(conversation("1", "bob")),
        lambda rows: rows.add_chat(Chat("2", "1", "1", "1", "bob")),
    ):
        with pytest.raises(Exception, match=r"(?i)unique"):
            engine.transact(add)
    assert engine.transact(lambda rows: (rows.conversation("1"), rows.chat("2"))) == (ada, chat)


# -- ids


@pytest.mark.parametrize(
    "add",
    [
        lambda rows, id: rows.add_conversation(conversation(id)),
        lambda rows, id: rows.add_chat(Chat(id, "1", "1", "1", "ada")),
        lambda rows, id: rows.add_message(message(id)),
    ],
    ids=["conversation", "chat", "message"],
)
def test_the_highest_id_is_that_of_any_row(engine: Engine, add: Any) -> None:
    assert engine.transact(Rows.highest_id) == 0
    engine.transact(lambda rows: (add(rows, "1000000000000000001"), add(rows, "99")))
    assert engine.transact(Rows.highest_id) == 1000000000000000001


def test_the_ids_of_what_was_purged_are_not_given_again(engine: Engine) -> None:
    def work(rows: Rows) -> None:
        for id in "5", "1000":
            rows.add_conversation(conversation(id))
            rows.add_chat(Chat(f"{id}0", id, "1", "1", "ada"))
            rows.add_message(message(f"{id}1", id))
        rows.purge("1000")
        rows.purge("5")

    engine.transact(work)
    assert engine.transact(Rows.highest_id) == 10001
    assert engine.transact(lambda rows: (rows.conversation("5"), rows.chat("50"), rows.has_place("5", "51"))) == (
        *(None, None),
        False,
    )


# -- messages


def test_nothing_is_left_of_a_deleted_message_but_its_place(engine: Engine) -> None:
    def work(rows: Rows) -> None:
        rows.add_conversation(conversation("1"))
        rows.add_chat(Chat("3", "1", "1", "4", "ada", status=Status.COMPLETED))
        for id, chat in ("5", "3"), ("6", None), ("7", "3"):
            rows.add_message(message(id, role="assistant", type="answer", content=f"secret {id}", chat_id=chat))
        rows.delete_message("5")
        rows.delete_message("6")

    engine.transact(work)
    everything: dict[str, Any] = {"descending": False, "chat_id": "", "before": "", "limit": 9, "most": 99_999}

    def look(rows: Rows) -> list[list[str]]:
        found = rows.listed("1", after="", **everything)[0], rows.listed("1", after="5", **everything)[0]
        return [[each.id for each in some] for some in (*found, rows.context("1", "1", most=99)[1], rows.produced("3"))]

    assert engine.transact(look) == [["7"]] * 4
    places = engine.transact(lambda rows: (rows.message("1", "5"), rows.has_place("1", "5"), rows.has_place("9", "5")))
    assert places == (None, True, False)


def test_what_is_listed_and_what_is_context_goes_by_the_status_of_the_chat(engine: Engine) -> None:
    def work(rows: Rows) -> None:
        for number, status in enumerate(Status):
            rows.add_chat(Chat(f"{number}", "1", "1", "4", "ada", status=status, query_id=f"9{number}"))
            rows.add_message(message(f"9{number}"))
            for kind in "question", "answer", "function_call":
                rows.add_message(message(f"8{number}{kind[0]}", type=kind, chat_id=f"{number}", content=status.value))
        rows.add_message(message("70", type="answer", content=""))

    engine.transact(work)
    everything: dict[str, Any] = {"descending": False, "chat_id": "", "before": "", "after": "", "limit": 99}
    listed, more = engine.transact(lambda rows: rows.listed("1", most=99_999, **everything))
    by_chats = {each.content for each in listed if each.chat_id}
    assert (by_chats, more) == ({"completed", "failed"}, False)
    assert {each.type for each in listed} == {"question", "answer"}
    # What was inserted is there, but for the query of the chat that was cancelled.
    inserted = {f"9{number}" for number, status in enumerate(Status) if status is not Status.CANCELED}
    assert {each.id for each in listed if not each.chat_id} == inserted
    _, context = engine.transact(lambda rows: rows.context("1", "1", most=99_999))
    assert {each.content for each in context if each.chat_id} == {"completed"}
    assert {each.id for each in context if not each.chat_id} == inserted


def test_context_is_what_a_session_has_not_heard_and_the_newest_that_fit(engine: Engine) -> None:
    engine.transact(lambda rows: [rows.add_message(message(str(id), content="x" * 100)) for id in range(10, 20)])
    engine.transact(lambda rows: rows.mark_known("k", ["10", "12"]))

    def context(*session: Any, **given: Any) -> tuple[list[str], list[str]]:
        left_out, found = engine.transact(lambda rows: rows.context("1", "1", *session, **given))
        return left_out, [each.id for each in found]

    everything = [str(id) for id in range(10, 20)]
    assert context(most=99_999) == ([], everything)
    assert context("k", most=99_999) == ([], [id for id in everything if id not in ("10", "12")])
    assert context("other", but="19", most=99_999) == ([], everything[:-1])
    left_out, found = context(most=350)
    assert (found, sorted(left_out)) == (everything[-3:], everything[:-3])
    last = engine.transact(lambda rows: rows.last_said("1", "1"))
    assert last is not None
    assert last.id == "19"


@pytest.mark.parametrize("most", [0, 1500, 99_999])
@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize("towards", ["after", "before"])
def test_a_page_of_large_messages_is_shorter_and_nothing_is_lost_between_pages(
    engine: Engine, most: int, descending: bool, towards: str
) -> None:
    ids = [str(number) for number in range(10, 19)]
    for id in ids:
        large = message(id, content="x" * (1000 if id == "14" else 100))
        engine.transact(lambda rows, large=large: rows.add_message(large))
    order = ids[::-1] if descending else ids
    steps = order if towards == "after" else order[::-1]
    seen: list[str] = [steps[0]]
    more = True
    while more:
        place = {"before": "", "after": "", towards: seen[-1]}
        page, more = engine.transact(
            lambda rows, place=place: rows.listed("1", descending=descending, chat_id="", **place, limit=3, most=most)
        )
        assert page
        assert len(page) <= {0: 1, 1500: 3, 99_999: 3}[most]
        found = [message.id for message in page]
        seen += found if towards == "after" else found[::-1]
    assert seen == steps


# -- transactions


class Refused(Exception):
    """What a transaction raises in the middle."""


def test_a_transaction_that_raises_has_changed_nothing_and_the_next_one_works(engine: Engine) -> None:
    def work(rows: Rows) -> None:
        rows.add_conversation(conversation("1"))
        raise Refused

    with pytest.raises(Refused):
        engine.transact(work)
    assert engine.transact(lambda rows: rows.conversation("1")) is None
    engine.transact(lambda rows: rows.add_conversation(conversation("1")))


@pytest.mark.anyio
async def test_what_follows_a_transaction_is_done_by_the_loop_once_it_is_committed(store: Store) -> None:
    done: list[int] = []

    def work(rows: Rows, refuse: bool) -> str:
        rows.afterwards.append(lambda: done.append(threading.get_ident()))
        if refuse:
            raise Refused
        return "value"

    with pytest.raises(Refused):
        await store.do(work, True)
    assert done == []
    assert await store.do(work, False) == "value"
    assert done == [threading.get_ident()]


@pytest.mark.anyio
async def test_a_caller_that_is_cancelled_hears_what_has_become_of_its_transaction(store: Store) -> None:
    began, go_on = anyio.Event(), threading.Event()
    loop_thread = threading.get_ident()
    heard: list[str] = []

    def work(rows: Rows) -> str:
        assert threading.get_ident() != loop_thread
        anyio.from_thread.run_sync(began.set)
        assert go_on.wait(10)
        rows.add_conversation(conversation("1"))
        return "kept"

    async with anyio.create_task_group() as group:

        async def call() -> None:
            heard.append(await store.do(work))

        group.start_soon(call)
        await began.wait()
        group.cancel_scope.cancel()
        go_on.set()
    assert heard == ["kept"]
    assert await store.do(lambda rows: rows.conversation("1")) == conversation("1")


@pytest.mark.anyio
async def test_transactions_that_read_and_write_one_row_at_the_same_time_lose_nothing(store: Store) -> None:
    await store.do(lambda rows: rows.add_conversation(conversation("1")))

    def rise(rows: Rows) -> None:
        found = rows.conversation("1")
        assert found is not None
        found.revision += 1
        rows.change_conversation(found)

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(store.do, rise)
    found = await store.do(lambda rows: rows.conversation("1"))
    assert found is not None
    assert found.revision == 50


def test_what_was_committed_is_there_for_the_next_engine(opens: Open, request: pytest.FixtureRequest) -> None:
    first = opens()
    first.transact(lambda rows: rows.add_conversation(conversation("1")))
    first.close()
    second = opens()
    found = second.transact(lambda rows: rows.conversation("1"))
    second.close()
    assert found == (None if "memory" in request.node.name else conversation("1"))
